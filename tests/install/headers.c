/* Every public header, by itself and together, in the oldest C that engines use. */
#include <croupier/beams.h>
#include <croupier/client.h>
#include <croupier/decide.h>
#include <croupier/fan_out.h>
#include <croupier/record_channel.h>
#include <croupier/types.h>
#include <croupier/writer.h>

size_t bytes_of_options(void);
size_t bytes_of_options(void) {
    return sizeof(croupier_open_options) + sizeof(croupier_writer_options) + sizeof(croupier_fan_out_options);
}
