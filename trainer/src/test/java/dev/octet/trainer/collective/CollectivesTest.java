package dev.octet.trainer.collective;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Half;
import dev.octet.quant.number.Overflow;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.math.BigDecimal;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Collectives among ranks that are threads, and alone. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class CollectivesTest {
    private static final Duration DEADLINE = Duration.ofSeconds(20);
    private static final List<DType> TYPES = List.of(DType.F32, DType.BF16, DType.F16, DType.F8_E4M3FN, DType.F8_E5M2);

    /** Sizes on both sides of the smallest that travels in slices, odd ones, and one of several rounds. */
    private static final int[] COUNTS = {0, 1, 13, 207, 16_384, 16_385, 4_200_001};

    private static byte[] random(long seed, DType type, int count) {
        SplittableRandom random = new SplittableRandom(seed);
        byte[] bytes = new byte[count * type.bits() / 8];
        MemorySegment all = MemorySegment.ofArray(bytes);
        for (int i = 0; i < count; i++) {
            float x = (float) ((random.nextDouble() - 0.5) * Math.pow(2, random.nextInt(-6, 8)));
            set(all, type, i, i % 97 == 5 ? 0 : x);
        }
        return bytes;
    }

    private static void set(MemorySegment all, DType type, int i, float x) {
        switch (type) {
            case F32 -> all.set(Tensor.F32_LE, 4L * i, x);
            case BF16 -> all.set(Tensor.I16_LE, 2L * i, BFloat16.fromFloat(x));
            case F16 -> all.set(Tensor.I16_LE, 2L * i, Half.fromFloat(x));
            default ->
                all.set(ValueLayout.JAVA_BYTE, i, (byte)
                        Float8Format.of(type).orElseThrow().encode(x, Overflow.SATURATE));
        }
    }

    private static float get(byte[] bytes, DType type, int i) {
        MemorySegment all = MemorySegment.ofArray(bytes);
        return switch (type) {
            case F32 -> all.get(Tensor.F32_LE, 4L * i);
            case BF16 -> BFloat16.toFloat(all.get(Tensor.I16_LE, 2L * i));
            case F16 -> Half.toFloat(all.get(Tensor.I16_LE, 2L * i));
            default -> Float8Format.of(type).orElseThrow().decode(bytes[i] & 0xFF);
        };
    }

    /** The nearest number of a type to an exact one, ties to even. */
    private static float nearest(BigDecimal exact, DType type) {
        byte[] one = new byte[4];
        // a double holds the sum of two numbers of 8 to 24 bits that are not far apart, so that it is rounded once
        set(MemorySegment.ofArray(one), type, 0, (float) exact.doubleValue());
        return get(one, type, 0);
    }

    static Stream<Object[]> sums() {
        List<Object[]> all = new ArrayList<>();
        for (DType type : TYPES) {
            for (SumRounding rounding : SumRounding.values()) {
                all.add(new Object[] {type, rounding});
            }
        }
        return all.stream();
    }

    @ParameterizedTest
    @MethodSource("sums")
    void a_sum_adds_ranks_in_their_order_and_rounds_where_it_is_told_to(DType type, SumRounding rounding) {
        int n = 500;
        int ranks = 3;
        List<byte[]> sums = RankThreads.run(ranks, DEADLINE, world -> {
            byte[] own = random(world.rank(), type, n);
            world.allReduce(MemorySegment.ofArray(own), type, RankReduction.SUM.rounding(rounding));
            return own;
        });
        DType between = rounding == SumRounding.ONCE ? DType.F32 : type;
        for (int i = 0; i < n; i++) {
            float sum = get(random(0, type, n), type, i);
            for (int r = 1; r < ranks; r++) {
                BigDecimal exact = new BigDecimal(sum).add(new BigDecimal(get(random(r, type, n), type, i)));
                sum = nearest(exact, between);
            }
            assertEquals(nearest(new BigDecimal(sum), type), get(sums.getFirst(), type, i), 0, "element " + i);
        }
        for (byte[] other : sums) {
            assertArrayEquals(sums.getFirst(), other);
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3, 4})
    void sums_of_any_size_are_those_of_a_plain_loop_whatever_way_they_travel(int ranks) {
        for (int n : COUNTS) {
            if (n > 1_000_000 && ranks == 4) {
                continue;
            }
            List<byte[]> all = new ArrayList<>();
            for (int r = 0; r < ranks; r++) {
                all.add(random(31 * n + r, DType.F32, Math.min(n, 20_000)));
            }
            float factor = (float) (1.0 / ranks);
            List<byte[]> got = RankThreads.run(ranks, DEADLINE, world -> {
                byte[] own = new byte[4 * n];
                byte[] pattern = all.get(world.rank());
                for (int at = 0; at < own.length; at += pattern.length) {
                    System.arraycopy(pattern, 0, own, at, Math.min(pattern.length, own.length - at));
                }
                world.allReduce(MemorySegment.ofArray(own), DType.F32, RankReduction.AVERAGE);
                return own;
            });
            for (int i = 0; i < n; i++) {
                float sum = 0;
                for (int r = 0; r < ranks; r++) {
                    sum += get(all.get(r), DType.F32, i % Math.min(n, 20_000)) * factor;
                }
                assertEquals(sum, get(got.getLast(), DType.F32, i), 0, n + " numbers, element " + i);
            }
        }
    }

    @Test
    void the_largest_and_the_smallest_are_NaN_where_a_rank_has_one() {
        List<float[]> got = RankThreads.run(3, DEADLINE, world -> {
            float[] largest = {world.rank(), world.rank() == 1 ? Float.NaN : 1, -world.rank()};
            float[] smallest = largest.clone();
            world.allReduce(largest, RankReduction.MAX);
            world.allReduce(smallest, RankReduction.MIN);
            return new float[] {largest[0], largest[1], largest[2], smallest[0], smallest[1], smallest[2]};
        });
        for (float[] each : got) {
            assertArrayEquals(new float[] {2, Float.NaN, 0, 0, Float.NaN, -2}, each);
        }
    }

    @Test
    void sums_of_E4M3_at_every_hop_saturate_as_NCCLs_do_and_those_rounded_once_do_not_on_the_way() {
        byte[] values = {(byte) Float8Format.E4M3FN.maxCode()};
        byte less = (byte) Float8Format.E4M3FN.encode(-448, Overflow.SATURATE);
        List<Float> hops = RankThreads.run(3, DEADLINE, world -> {
            byte[] own = world.rank() == 2 ? new byte[] {less} : values.clone();
            world.allReduce(
                    MemorySegment.ofArray(own), DType.F8_E4M3FN, RankReduction.SUM.rounding(SumRounding.EVERY_HOP));
            return get(own, DType.F8_E4M3FN, 0);
        });
        List<Float> once = RankThreads.run(3, DEADLINE, world -> {
            byte[] own = world.rank() == 2 ? new byte[] {less} : values.clone();
            world.allReduce(MemorySegment.ofArray(own), DType.F8_E4M3FN, RankReduction.SUM);
            return get(own, DType.F8_E4M3FN, 0);
        });
        assertEquals(List.of(0f, 0f, 0f), hops, "448 + 448 is 448, and 448 - 448 is 0");
        assertEquals(List.of(448f, 448f, 448f), once);
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 3, 1_500_000})
    void shares_of_a_sum_are_the_sum_and_gathered_they_are_on_every_rank(int share) {
        int ranks = 3;
        List<byte[]> got = RankThreads.run(ranks, DEADLINE, world -> {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment data = arena.allocate((long) ranks * share, 1);
                for (int r = 0; r < ranks; r++) {
                    data.asSlice((long) r * share, share).fill((byte) (0x38 + 8 * r)); // 1, 2, 4
                }
                MemorySegment own = arena.allocate(share, 1);
                world.reduceScatter(data, own, DType.F8_E4M3FN, RankReduction.SUM);
                byte[] all = new byte[ranks * share];
                world.allGather(own, MemorySegment.ofArray(all));
                return all;
            }
        });
        for (byte[] all : got) {
            for (int r = 0; r < ranks; r++) {
                assertEquals(3 << r, get(all, DType.F8_E4M3FN, r * share), 0);
                assertEquals(3 << r, get(all, DType.F8_E4M3FN, (r + 1) * share - 1), 0);
            }
        }
    }

    /** Shares of no bytes, of some, and of more than one message. */
    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3, 4})
    void shares_of_different_sizes_have_the_bits_of_the_whole_sum_and_are_gathered_in_place(int ranks) {
        int[] counts = {5, 0, 700_003, 1};
        List<byte[]> got = RankThreads.run(ranks, DEADLINE, world -> {
            List<MemorySegment> shares = new ArrayList<>();
            for (int r = 0; r < ranks; r++) {
                shares.add(MemorySegment.ofArray(random(10L * world.rank() + r, DType.F32, counts[r])));
            }
            world.reduceScatter(shares, shares.get(world.rank()), DType.F32, RankReduction.AVERAGE);
            world.allGather(shares);
            return joined(shares);
        });
        List<byte[]> whole = RankThreads.run(ranks, DEADLINE, world -> {
            List<MemorySegment> shares = new ArrayList<>();
            for (int r = 0; r < ranks; r++) {
                shares.add(MemorySegment.ofArray(random(10L * world.rank() + r, DType.F32, counts[r])));
            }
            byte[] all = joined(shares);
            world.allReduce(MemorySegment.ofArray(all), DType.F32, RankReduction.AVERAGE);
            return all;
        });
        for (byte[] all : got) {
            assertArrayEquals(whole.getFirst(), all);
        }
    }

    private static byte[] joined(List<MemorySegment> parts) {
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        parts.forEach(p -> all.writeBytes(p.toArray(ValueLayout.JAVA_BYTE)));
        return all.toByteArray();
    }

    @Test
    void bytes_of_one_rank_reach_all_and_messages_between_two_keep_their_order() {
        List<String> got = RankThreads.run(4, DEADLINE, world -> {
            byte[] data = new byte[2_500_000];
            if (world.rank() == 2) {
                data[0] = 7;
                data[data.length - 1] = 9;
            }
            world.broadcast(MemorySegment.ofArray(data), 2);
            byte[] message = {(byte) world.rank()};
            byte[] second = {(byte) (10 + world.rank())};
            if (world.rank() == 0) {
                world.send(MemorySegment.ofArray(message), 3);
                world.send(MemorySegment.ofArray(second), 3);
            } else if (world.rank() == 3) {
                world.receive(MemorySegment.ofArray(message), 0);
                world.receive(MemorySegment.ofArray(second), 0);
            }
            world.barrier();
            return data[0] + " " + data[data.length - 1] + " " + message[0] + " " + second[0];
        });
        assertEquals(List.of("7 9 0 10", "7 9 1 11", "7 9 2 12", "7 9 0 10"), got);
    }

    @Test
    void bytes_of_different_lengths_are_gathered_in_the_order_of_ranks() {
        List<List<byte[]>> got = RankThreads.run(3, DEADLINE, world -> world.gather(new byte[3 * world.rank()]));
        for (List<byte[]> all : got) {
            assertEquals(List.of(0, 3, 6), all.stream().map(b -> b.length).toList());
        }
    }

    @Test
    void a_rank_that_throws_ends_those_that_wait_for_it_with_its_name() {
        List<String> said = new ArrayList<>();
        UnavailableException failed = assertThrows(
                UnavailableException.class,
                () -> RankThreads.run(3, Duration.ofMinutes(5), world -> {
                    if (world.rank() == 1) {
                        throw new IOException("no space left");
                    }
                    try {
                        world.barrier();
                    } catch (UnavailableException e) {
                        synchronized (said) {
                            said.add(e.what());
                        }
                        throw e;
                    }
                    return 0;
                }));
        assertEquals("rank 1 of 3 failed: no space left", failed.what());
        said.sort(null);
        assertEquals(
                List.of(
                        "rank 1 of 3 failed, and rank 0 ends with it: no space left",
                        "rank 1 of 3 failed, and rank 2 ends with it: no space left"),
                said);
    }

    @Test
    void a_rank_that_ends_early_is_named_by_those_that_wait_for_it() {
        UnavailableException failed = assertThrows(
                UnavailableException.class,
                () -> RankThreads.run(2, Duration.ofMinutes(5), world -> {
                    if (world.isFirst()) {
                        world.barrier();
                    }
                    return 0;
                }));
        assertEquals("rank 0 of 2 failed: rank 1 of 2 has ended, and rank 0 waits for it", failed.what());
    }

    @Test
    void a_message_that_is_not_posted_before_the_deadline_is_missed_by_the_name_of_its_rank() {
        UnavailableException failed = assertThrows(
                UnavailableException.class,
                () -> RankThreads.run(2, Duration.ofMillis(50), world -> {
                    if (world.isFirst()) {
                        world.take(MemorySegment.ofArray(new byte[4]), 1, 3);
                    } else {
                        world.post(MemorySegment.ofArray(new byte[4]), 0, 2); // of another channel
                        try {
                            Thread.sleep(400);
                        } catch (InterruptedException e) {
                            Thread.currentThread().interrupt();
                        }
                    }
                    return 0;
                }));
        assertEquals("rank 0 of 2 failed: rank 0 of 2 waited 0 s for rank 1", failed.what());
    }

    @Test
    void a_rank_that_hangs_is_named_at_the_deadline() {
        UnavailableException failed = assertThrows(
                UnavailableException.class,
                () -> RankThreads.run(2, Duration.ofMillis(50), world -> {
                    if (world.isFirst()) {
                        world.allReduce(1, RankReduction.SUM);
                    } else {
                        try {
                            Thread.sleep(400);
                        } catch (InterruptedException e) {
                            Thread.currentThread().interrupt();
                        }
                    }
                    return 0;
                }));
        assertEquals("rank 0 of 2 failed: rank 0 of 2 waited 0 s for rank 1", failed.what());
    }

    @Test
    void ranks_that_make_different_calls_are_told_so() {
        UnavailableException failed = assertThrows(
                UnavailableException.class,
                () -> RankThreads.run(2, DEADLINE, world -> {
                    if (world.isFirst()) {
                        world.barrier();
                    } else {
                        world.allReduce(1, RankReduction.SUM);
                    }
                    return 0;
                }));
        IllegalStateException why = assertInstanceOf(IllegalStateException.class, failed.getCause());
        String said = requireNonNull(why.getMessage());
        assertTrue(said.matches("rank . of 2 is in .* bytes, rank . in .* with \\d"), said);
    }

    @Test
    void ranks_of_a_mesh_have_their_neighbours_in_its_three_directions() {
        List<String> got = RankThreads.run(8, DEADLINE, world -> {
            RankGroups groups = RankGroups.of(new Mesh(2, 2, 2, 1, 0), world);
            String members = "";
            for (Collectives group : List.of(groups.tensor(), groups.data(), groups.pipeline())) {
                byte[] own = {(byte) ('0' + world.rank())};
                for (byte[] each : group.gather(own)) {
                    members += (char) each[0];
                }
                members += group.rank() + " ";
            }
            return members;
        });
        assertEquals(
                List.of(
                        "010 020 040 ",
                        "011 130 150 ",
                        "230 021 260 ",
                        "231 131 370 ",
                        "450 460 041 ",
                        "451 570 151 ",
                        "670 461 261 ",
                        "671 571 371 "),
                got);
    }

    /** Groups of different sizes that sum at the same time what travels at once, in slices and in several rounds. */
    @Test
    void a_group_has_the_bits_of_as_many_ranks_alone() {
        for (int count : new int[] {13, 16_385, 700_001}) {
            List<byte[]> pair = RankThreads.run(2, DEADLINE, world -> sum(world, count, 3 + 2L * world.rank()));
            List<byte[]> three = RankThreads.run(3, DEADLINE, world -> sum(world, count, 2L * world.rank()));
            List<byte[]> got = RankThreads.run(6, DEADLINE, world -> {
                List<Integer> members =
                        world.rank() % 2 == 0 ? List.of(0, 2, 4) : world.rank() == 1 ? List.of(1) : List.of(3, 5);
                return sum(world.group(members), count, world.rank());
            });
            for (int r : new int[] {0, 2, 4}) {
                assertArrayEquals(three.getFirst(), got.get(r));
            }
            assertArrayEquals(pair.getFirst(), got.get(3));
            assertArrayEquals(pair.getFirst(), got.get(5));
            assertArrayEquals(random(1, DType.F32, count), got.get(1), "one alone");
        }
    }

    private static byte[] sum(Collectives world, int count, long seed) {
        byte[] own = random(seed, DType.F32, count);
        world.allReduce(MemorySegment.ofArray(own), DType.F32, RankReduction.AVERAGE);
        return own;
    }

    @Test
    void a_group_of_a_group_sends_and_receives_by_its_own_numbers() {
        List<Integer> got = RankThreads.run(4, DEADLINE, world -> {
            if (world.isFirst()) {
                return -1;
            }
            Collectives odd = world.group(List.of(3, 2, 1));
            if (odd.rank() == 1) {
                return -2;
            }
            Collectives ends = odd.group(List.of(2, 0));
            assertEquals(world.rank(), ends.worldRank(ends.rank()));
            byte[] data = {(byte) world.rank()};
            if (ends.isFirst()) {
                ends.send(MemorySegment.ofArray(data), 1);
            } else {
                ends.receive(MemorySegment.ofArray(data), 0);
            }
            return (int) data[0];
        });
        assertEquals(List.of(-1, 1, -2, 1), got);
    }

    @Test
    void a_rank_that_fails_or_hangs_is_named_in_its_group_as_among_all() {
        UnavailableException failed = assertThrows(
                UnavailableException.class,
                () -> RankThreads.run(4, DEADLINE, world -> {
                    Collectives pair = world.group(List.of(world.rank() % 2, world.rank() % 2 + 2));
                    if (world.rank() == 3) {
                        return 0;
                    }
                    pair.barrier();
                    return 0;
                }));
        assertEquals("rank 1 of 4 failed: rank 3 of 4 has ended, and rank 1 waits for it", failed.what());
        UnavailableException late = assertThrows(
                UnavailableException.class,
                () -> RankThreads.run(3, Duration.ofMillis(50), world -> {
                    if (world.rank() == 1) {
                        world.group(List.of(1, 2)).barrier();
                    } else if (world.rank() == 2) {
                        try {
                            Thread.sleep(400);
                        } catch (InterruptedException e) {
                            Thread.currentThread().interrupt();
                        }
                    }
                    return 0;
                }));
        assertEquals("rank 1 of 3 failed: rank 1 of 3 waited 0 s for rank 2", late.what());
    }

    @Test
    void a_group_that_a_rank_is_not_in_is_refused() {
        try (Collectives alone = Collectives.alone()) {
            assertThrows(IllegalArgumentException.class, () -> alone.group(List.of()));
            assertThrows(IllegalArgumentException.class, () -> alone.group(List.of(0, 1)));
            assertThrows(IllegalArgumentException.class, () -> alone.group(List.of(0, 0)));
            assertEquals(1, alone.group(List.of(0)).size());
        }
    }

    @Test
    void one_rank_alone_rounds_as_several_do_and_changes_nothing_else() {
        byte[] own = random(3, DType.BF16, 100);
        byte[] sum = own.clone();
        try (Collectives alone = Collectives.alone()) {
            alone.allReduce(MemorySegment.ofArray(sum), DType.BF16, RankReduction.SUM);
            assertArrayEquals(own, sum);
            byte[] gathered = new byte[200];
            alone.allGather(MemorySegment.ofArray(own), MemorySegment.ofArray(gathered));
            assertArrayEquals(own, gathered);
            alone.broadcast(MemorySegment.ofArray(gathered), 0);
            alone.barrier();
            assertEquals(
                    List.of(5),
                    alone.gather(new byte[5]).stream().map(b -> b.length).toList());
        }
    }

    @Test
    void types_that_are_not_added_are_refused() {
        try (Collectives alone = Collectives.alone()) {
            assertThrows(
                    IllegalArgumentException.class,
                    () -> alone.allReduce(MemorySegment.ofArray(new byte[8]), DType.I64, RankReduction.SUM));
            assertThrows(
                    IllegalArgumentException.class,
                    () -> alone.allReduce(MemorySegment.ofArray(new byte[7]), DType.F32, RankReduction.SUM));
        }
    }
}
