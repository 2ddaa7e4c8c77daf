"""What the plugin says about shared memory when it starts."""

from croupier.serving.shared_memory import Room, room_of, status_of, without_room


def test_a_host_with_enough_shared_memory_is_told_the_figures_and_no_advice():
    room = Room(at_open=300 << 20, logs=20 << 20, free=1 << 30, fewer_sequences="")
    assert room.advice == ""
    assert "takes 300 MiB" in room.text
    assert "20 MiB more" in room.text
    assert "1024 MiB are free" in room.text


def test_a_container_that_may_run_out_is_told_which_shm_size_would_do():
    room = Room(at_open=300 << 20, logs=200 << 20, free=64 << 20, fewer_sequences="fewer")
    assert "--shm-size 500m or more would be right, or fewer" in room.advice


def test_logs_are_bounded_by_the_kv_cache_and_by_the_longest_requests(tmp_path):
    segment = tmp_path / "segment"
    segment.write_bytes(b"x" * 8192)
    bounded = room_of(
        str(segment), sequences=100, cached_tokens=50_000, longest=1_000_000, fewer_sequences=""
    )
    assert bounded.logs == 50_000 * 4 + 100 * 16384
    assert room_of(str(segment), 100, 50_000, 10, "").logs == 1000 * 4 + 100 * 16384
    assert room_of(str(segment), 100, 0, 1000, "").logs == 100_000 * 4 + 100 * 16384
    assert bounded.at_open == 8192
    assert bounded.free > 0


def test_the_daemon_of_a_segment_is_asked_by_its_own_names():
    told = status_of("/dev/shm/croupier-private-0-1a/croupier-private-0-1a-77.seg")
    assert told == "croupier status --instance private-0-1a --shm-dir /dev/shm/croupier-private-0-1a"


def test_a_session_that_does_not_fit_names_the_flags_that_help():
    told = without_room("cannot allocate 3 bytes in /dev/shm: No space left on device", 1024, "fewer")
    assert "--shm-size" in told
    assert "room for 1024 rows" in told
    assert "No space left" in told
