#include <catch2/catch.hpp>
#include <vector>

#include "tests/tools/asker.h"

namespace croupier::tools {

using namespace explain;
namespace {

using Catch::Matchers::Contains;

struct Mistake {
    const char* line;
    const char* said;
};

void check_all(const std::vector<Mistake>& mistakes) {
    Asker ask;
    for (const Mistake& each : mistakes) {
        INFO(each.line);
        CHECK_THAT(ask.error(each.line), Contains(each.said));
        REQUIRE(ask.token({{"logits", {1, 9}}, {"params", {{"temperature", 0}}}}) == 1);
    }
}

}  // namespace

TEST_CASE("decide: an invalid line is answered with its number and the error") {
    Asker ask;
    const std::vector<std::string> lines = {"nonsense",
                                            "{",
                                            "{\"logits\":[1,2]} trailing",
                                            "[1,2]",
                                            "3",
                                            "null",
                                            "\"\xff\xfe\"",
                                            std::string("{\"logits\":[1\0]}", 15),
                                            "{\"logits\":[1,1e999]}",
                                            std::string(300'000, '['),
                                            "{\"\xc3\x28\":1}"};
    for (const std::string& line : lines) {
        INFO(line.substr(0, 40));
        CHECK_THAT(ask.error(line), Catch::StartsWith("line 7: "));
    }
    CHECK(ask.token({{"logits", {1, 9}}, {"params", {{"temperature", 0}}}}) == 1);
}

TEST_CASE("decide: the error for an unknown key suggests the nearest known one") {
    check_all({
        {R"({"logits":[1,2],"sed":3})", "unknown key 'sed'; did you mean 'seed'?"},
        {R"({"logits":[1,2],"params":{"temprature":1}})", "'params.temprature'; did you mean 'temperature'?"},
        {R"({"logits":[1,2],"params":{"order":["top_o"]}})", "params.order[0] is \"top_o\""},
        {R"({"logits":[1,2],"params":{"order":["qqqqqq"]}})", "known: penalties, dry,"},
        {R"({"row":{"fil":"x"}})", "'row.fil'; did you mean 'file'?"},
        {R"({"logits":[1,2],"feedback":{"levl":1}})", "did you mean 'level'?"},
    });
}

TEST_CASE("decide: the error for a value of the wrong type says what is allowed") {
    check_all({
        {R"({})", "either logits"},
        {R"({"logits":[1],"row":{}})", "either logits"},
        {R"({"logits":[]})", "logits is a list of 0; allowed: a list of 1 to 1048576"},
        {R"({"logits":{"a":1}})", "logits is an object"},
        {R"({"logits":[1,true]})", "logits[1] is true"},
        {R"({"logits":[1,"much"]})",
         "logits[1] is \"much\"; allowed: a number, \"nan\", \"inf\" or \"-inf\""},
        {R"({"logits":[1],"dtype":"fp8"})", "dtype is \"fp8\"; allowed: one of bf16, fp16, fp32"},
        {R"({"logits":[1],"tile":0})", "tile is 0; allowed: a whole number from 1 to 64"},
        {R"({"logits":[1],"tile":63})", "tile is 63; allowed: 1 or 64"},
        {R"({"logits":[1,2],"ranks":3})", "ranks is 3; allowed: a whole number from 1 to 2"},
        {R"({"logits":[1],"params":[]})", "params is a list of 0; allowed: an object"},
        {R"({"logits":[1],"params":{"top_k":1.5}})", "params.top_k is 1.5"},
        {R"({"logits":[1],"params":{"top_k":99999999999999999999999}})", "params.top_k is 9.99"},
        {R"({"logits":[1],"params":{"top_k":-2147483649}})", "from -2147483648 to 2147483647"},
        {R"({"logits":[1],"params":{"temperature":"hot"}})", "params.temperature is \"hot\""},
        {R"({"logits":[1],"params":{"ignore_eos":1}})", "params.ignore_eos is 1; allowed: true or false"},
        {R"({"logits":[1],"params":{"rng":"dice"}})", "allowed: one of race, shvs, sglang, vllm"},
        {R"({"logits":[1],"params":{"rng":"philox"}})",
         "params.rng is \"philox\", which was replaced by the default, \"race\""},
        {R"({"logits":[1],"params":{"rng":"gumbel"}})",
         "params.rng is \"gumbel\", which was replaced by the default, \"race\""},
        {R"({"logits":[1],"params":{"rng":1}})", "params.rng is 1"},
        {R"({"logits":[1],"params":{"logprobs_mode":"cooked"}})", "allowed: one of raw, processed"},
        {R"({"logits":[1],"params":{"order":[]}})", "params.order is a list of 0"},
        {R"({"logits":[1],"params":{"order":[3]}})", "params.order[0] is 3"},
        {R"({"logits":[1],"params":{"order":["top_k","top_k"]}})", "params.order[1] is \"top_k\" again"},
        {R"({"logits":[1],"params":{"order":["typ_p","typical_p"]}})", "params.order[1]"},
        {R"({"logits":[1],"params":{"order":[1,2,3,4,5,6,7,8,9,10,11,12]}})", "params.order is a list of 12"},
        {R"({"logits":[1],"params":{"logit_bias":1}})", "params.logit_bias is 1; allowed: an object"},
        {R"({"logits":[1],"params":{"logit_bias":[1]}})", "params.logit_bias[0] is 1; allowed: [id, bias]"},
        {R"({"logits":[1],"params":{"logit_bias":[[0,1],[1]]}})", "params.logit_bias[1] is a list of 1"},
        {R"({"logits":[1],"params":{"logit_bias":[[0.5,1]]}})", "params.logit_bias[0][0] is 0.5"},
        {R"({"logits":[1],"hot":1,"hot_blocks":[0]})", "either hot"},
        {R"({"logits":[1],"hot_blocks":[]})", "hot_blocks is a list of 0"},
        {R"({"logits":[1],"hot_blocks":[0,0]})", "hot_blocks is a list of 2"},
        {R"({"logits":[1,2],"hot_blocks":[1]})", "hot_blocks[0] is 1"},
        {R"({"logits":[1],"random":1,"draws":2})", "random is for a single decision"},
        {R"({"logits":[1],"random":4294967296})", "random is 4294967296"},
        {R"({"logits":[1],"decided":{"token":-2}})", "decided.token is -2"},
        {R"({"logits":[1],"decided":{"tokn":2}})", "did you mean 'token'?"},
        {R"({"logits":[1],"params":{"logit_bias":{"one":1}}})", "not a token id"},
        {R"({"logits":[1],"params":{"logit_bias":{"0":null}}})", "params.logit_bias.0 is null"},
        {R"({"logits":[1],"params":{"n":0}})", "params.n is 0; allowed: a whole number from 1 to 1024"},
        {R"({"logits":[1],"params":{"n":1025}})", "params.n is 1025"},
        {R"({"logits":[1],"params":{"seed":-1}})", "params.seed is -1; allowed: a whole number from 0"},
        {R"({"logits":[1],"params":{"seed":"1x"}})",
         "params.seed is \"1x\"; allowed: a whole number, or its"},
        {R"({"logits":[1],"seed":"18446744073709551616"})", "up to 18446744073709551615"},
        {R"({"logits":[1],"seed":""})", "seed is \"\""},
        {R"({"logits":[1],"position":"1"})", "position is \"1\"; allowed: a whole number from 0"},
        {R"({"logits":[1],"params":{"bad_words":[[]]}})", "params.bad_words[0] is a list of 0"},
        {R"({"logits":[1],"params":{"bad_words":[[0],["x"]]}})", "params.bad_words[1][0] is \"x\""},
        {R"({"logits":[1],"params":{"allowed_token_ids":[]}})", "params.allowed_token_ids is empty"},
        {R"({"logits":[1],"params":{"stop_token_ids":7}})", "params.stop_token_ids is 7; allowed: a list"},
        {R"({"logits":[1],"prompt":[0,4294967296]})", "prompt[1] is 4294967296"},
        {R"({"logits":[1],"output":{}})", "output is an object"},
        {R"({"logits":[1],"position":4294967296})", "position is 4294967296"},
        {R"({"logits":[1],"output":[0,0],"position":1})", "position is 1; allowed: a whole number from 2"},
        {R"({"logits":[1],"prompt":[0],"output":[0,0],"position":2})",
         "position is 2; allowed: a whole number from 3"},
        {R"({"logits":[1],"draws":0})", "draws is 0"},
        {R"({"logits":[1],"draws":1000001})", "allowed: a whole number from 1 to 1000000"},
        {R"({"logits":[1],"support":"yes"})", "support is \"yes\"; allowed: true or false"},
        {R"({"logits":[1],"logprobs":-1})", "logprobs is -1"},
        {R"({"logits":[1],"mask":[1,2]})", "mask is a list of 2; allowed: a list of 1 words"},
        {R"({"logits":[1],"mask":[4294967296]})", "mask[0] is 4294967296"},
        {R"({"logits":[1],"impl":"slow"})", "impl is \"slow\"; allowed: one of fast, reference"},
        {R"({"logits":[1],"target":"abacus"})", "target is \"abacus\"; this machine has "},
        {R"({"logits":[1],"feedback":3})", "feedback is 3; allowed: an object"},
        {R"({"logits":[1],"max_length":1})", "max_length is 1"},
    });
}

TEST_CASE("decide: a refusal by the sampler names the wrong id, value or logit") {
    for (const std::string impl : {R"("impl":"fast")", R"("impl":"reference")"}) {
        const auto line = [&impl](const std::string& rest) {
            return std::string("{").append(impl).append(",").append(rest).append("}");
        };
        Asker ask;
        CHECK_THAT(ask.error(line(R"("logits":[1,"nan"])")), Contains("nan_logit: the logit of id 1 is NaN"));
        CHECK_THAT(ask.error(line(R"("logits":["inf",1])")), Contains("infinite_logit: the logit of id 0"));
        CHECK_THAT(ask.error(line(R"("logits":[1,70000],"dtype":"fp16")")),
                   Contains("the logit of id 1 is +inf"));
        CHECK_THAT(ask.error(line(R"("logits":[null,"-inf"])")), Contains("no_token_left"));
        CHECK_THAT(ask.error(line(R"("logits":[1,2],"mask":[0])")), Contains("no_token_left"));
        CHECK_THAT(ask.error(line(R"("logits":[1],"prompt":[0,1])")),
                   Contains("bad_token: prompt[1] is 1; this row has the ids 0 to 0"));
        CHECK_THAT(ask.error(line(R"("logits":[1],"output":[-1])")), Contains("output[0] is -1"));
        const auto params = [&](const std::string& text) {
            return ask.error(line(R"("logits":[1,2],"params":{)" + text + "}"));
        };
        CHECK_THAT(params(R"("eos_token_id":2)"), Contains("params.eos_token_id is 2"));
        CHECK_THAT(params(R"("stop_token_ids":[0,2])"), Contains("params.stop_token_ids[1] is 2"));
        CHECK_THAT(params(R"("allowed_token_ids":[-3])"), Contains("params.allowed_token_ids[0] is -3"));
        CHECK_THAT(params(R"("logit_bias":{"7":1})"), Contains("an id of params.logit_bias is 7"));
        CHECK_THAT(params(R"("logit_bias":{"1":100.5})"),
                   Contains("logit_bias of id 1 is 100.5; allowed: -100 to 100"));
        CHECK_THAT(params(R"("bad_words":[[0],[1,2]])"), Contains("params.bad_words[1][1] is 2"));
        CHECK_THAT(params(R"("dry_multiplier":1,"dry_sequence_breakers":[5])"),
                   Contains("params.dry_sequence_breakers[0][0] is 5"));
        CHECK_THAT(ask.error(line(R"("logits":[1],"prompt":[0,0],"max_length":2)")),
                   Contains("sequence_full"));
    }
}

}  // namespace croupier::tools
