package dev.octet.trainer.collective;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.IntStream;

/** A rank in a process of its own, which {@link RankProcessesTest} starts. */
public final class RankChild {
    private RankChild() {}

    /** Word: {@code calls} for the digest of all calls, or {@code fail} for a rank 1 that fails while the others wait. */
    public static void main(String... words) {
        RankEnvironment environment = RankEnvironment.of(System.getenv()).orElseThrow();
        Collectives world = RankProcesses.join(environment, System.getenv());
        if (words[0].equals("fail")) {
            if (world.rank() == 1) {
                System.out.println(world.name() + " has no space left");
                world.abandon(4);
                System.exit(4);
            }
            world.barrier();
        }
        System.out.println(world.name() + " by " + world.engine() + ": " + digest(world));
        world.close();
    }

    /** What comes of every call with every type, as one digest. */
    public static String digest(Collectives world) {
        try {
            MessageDigest sha = MessageDigest.getInstance("SHA-256");
            for (DType type : List.of(DType.F32, DType.BF16, DType.F16, DType.F8_E4M3FN, DType.F8_E5M2)) {
                for (RankReduction.Kind kind : RankReduction.Kind.values()) {
                    for (SumRounding rounding : SumRounding.values()) {
                        sums(world, sha, type, new RankReduction(kind, rounding));
                    }
                }
            }
            byte[] large = bytes(world.rank(), 3_000_001);
            world.broadcast(MemorySegment.ofArray(large), world.size() - 1);
            sha.update(large);
            byte[] all = new byte[5 * world.size()];
            world.allGather(MemorySegment.ofArray(bytes(world.rank(), 5)), MemorySegment.ofArray(all));
            sha.update(all);
            byte[] message = bytes(100 + world.rank(), 2_000_000);
            if (world.rank() == 0) {
                world.send(MemorySegment.ofArray(message), 1);
            } else if (world.rank() == 1) {
                world.receive(MemorySegment.ofArray(message), 0);
            } else {
                message = bytes(100, 2_000_000);
            }
            sha.update(message);
            groups(world, sha);
            posts(world, sha);
            world.barrier();
            return HexFormat.of().formatHex(sha.digest(), 0, 8);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Around a circle, where each posts all before it takes any, and takes the second channel first. */
    private static void posts(Collectives world, MessageDigest sha) {
        int next = (world.rank() + 1) % world.size();
        int before = (world.rank() + world.size() - 1) % world.size();
        for (int i = 0; i < 3; i++) {
            byte[] first = bytes(200 + world.rank() + 10L * i, 1_500_000);
            world.post(MemorySegment.ofArray(first), next, 0);
            world.post(MemorySegment.ofArray(bytes(300 + world.rank() + 10L * i, 7)), next, 1);
            Arrays.fill(first, (byte) 0); // the copy is what travels
        }
        for (int channel = 1; channel >= 0; channel--) {
            for (int i = 0; i < 3; i++) {
                byte[] taken = new byte[channel == 0 ? 1_500_000 : 7];
                world.take(MemorySegment.ofArray(taken), before, channel);
                world.gather(taken).forEach(sha::update);
            }
        }
    }

    /** Even and odd ranks each among themselves, in turns with all. */
    private static void groups(Collectives world, MessageDigest sha) {
        Collectives half = world.group(IntStream.range(0, world.size())
                .filter(r -> r % 2 == world.rank() % 2)
                .boxed()
                .toList());
        for (int count : new int[] {1, 40_003}) {
            byte[] data = numbers(world.rank(), DType.F32, count);
            half.allReduce(MemorySegment.ofArray(data), DType.F32, RankReduction.AVERAGE);
            half.barrier();
            world.gather(data).forEach(sha::update);
        }
    }

    private static void sums(Collectives world, MessageDigest sha, DType type, RankReduction reduction) {
        for (int count : new int[] {1, 13, 2000, 40_003}) {
            byte[] data = numbers(world.rank(), type, count);
            world.allReduce(MemorySegment.ofArray(data), type, reduction);
            sha.update(data);
        }
        byte[] shares = numbers(50 + world.rank(), type, 300 * world.size());
        byte[] own = new byte[shares.length / world.size()];
        world.reduceScatter(MemorySegment.ofArray(shares), MemorySegment.ofArray(own), type, reduction);
        world.gather(own).forEach(sha::update);
        List<MemorySegment> uneven = new ArrayList<>();
        for (int r = 0; r < world.size(); r++) {
            uneven.add(MemorySegment.ofArray(numbers(60 + world.rank(), type, 77 * r)));
        }
        world.reduceScatter(uneven, uneven.get(world.rank()), type, reduction);
        world.allGather(uneven);
        uneven.forEach(u -> sha.update(u.toArray(ValueLayout.JAVA_BYTE)));
    }

    private static byte[] bytes(long seed, int count) {
        byte[] bytes = new byte[count];
        new SplittableRandom(seed).nextBytes(bytes);
        return bytes;
    }

    /** Numbers that are finite in every type: any bits, the exponent's highest cleared. */
    private static byte[] numbers(long seed, DType type, int count) {
        int width = type.bits() / 8;
        byte[] bytes = bytes(seed, count * width);
        if (type == DType.F32) {
            SplittableRandom random = new SplittableRandom(seed);
            MemorySegment all = MemorySegment.ofArray(bytes);
            for (int i = 0; i < count; i++) {
                all.set(Tensor.F32_LE, 4L * i, (float) (random.nextDouble() - 0.5));
            }
            return bytes;
        }
        for (int i = width - 1; i < bytes.length; i += width) {
            bytes[i] &= (byte) 0xBF;
        }
        return bytes;
    }
}
