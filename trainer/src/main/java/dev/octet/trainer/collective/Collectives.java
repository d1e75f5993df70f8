package dev.octet.trainer.collective;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/**
 * What the ranks of a run do together. All ranks make the same calls in the same order with data of the same size; each call returns when its result is there. Numbers are little-endian, and
 * {@link RankReduction} says in which order they are added.
 *
 * <p>Types of numbers are F32, BF16, F16, E4M3 and E5M2. Data may lie on the heap or off it, at any address. A rank calls from one thread.
 *
 * <p>All methods throw {@link dev.octet.formats.error.UnavailableException} with the name of the rank when another rank has ended, or when one does not answer before
 * the deadline of the engine.
 */
public interface Collectives extends AutoCloseable {
    /** The number of this rank, from 0. */
    int rank();

    /** How many ranks there are. */
    int size();

    /** What moves the bytes: {@code threads}, or the name and version of an MPI library. */
    String engine();

    /** Whether there is no other rank. */
    default boolean isAlone() {
        return size() == 1;
    }

    /** Whether this is the rank that writes and speaks for all. */
    default boolean isFirst() {
        return rank() == 0;
    }

    /** How messages call this rank: {@code rank 1 of 4}; ranks count from 0. */
    default String name() {
        return "rank " + rank() + " of " + size();
    }

    /** The number that a rank of this group has among all ranks of the run: the same, but in a {@link #group}. */
    default int worldRank(int rank) {
        return rank;
    }

    /**
     * Some of the ranks, which then make calls without the others. Making a group needs no message; closing it does nothing. Two ranks that are together in several groups make the calls of
     * all of them in the same order.
     *
     * @param members numbers of different ranks, this one's among them; a rank of the group has its place in the list as its number
     * @throws IllegalArgumentException when this rank is not among them
     */
    Collectives group(List<Integer> members);

    /**
     * Replaces numbers by those of all ranks, reduced element by element.
     *
     * @throws IllegalArgumentException for a type that is not added
     */
    void allReduce(MemorySegment data, DType type, RankReduction reduction);

    /**
     * Reduces numbers and leaves each rank its share of the result.
     *
     * @param data the shares of all ranks, one after another
     * @param own takes the share of this rank
     */
    void reduceScatter(MemorySegment data, MemorySegment own, DType type, RankReduction reduction);

    /**
     * The same for shares that differ in size.
     *
     * @param shares this rank's numbers for each rank; a share has the same size on all ranks and may be empty
     * @param own takes the share of this rank; may be its entry among {@code shares}
     */
    void reduceScatter(List<MemorySegment> shares, MemorySegment own, DType type, RankReduction reduction);

    /**
     * Gathers bytes of all ranks on each of them.
     *
     * @param own the bytes of this rank, as many as of each
     * @param all takes those of all ranks, one after another
     */
    void allGather(MemorySegment own, MemorySegment all);

    /**
     * The same for ranks that give different numbers of bytes.
     *
     * @param shares the bytes of each rank; that of this rank is read, the others are written
     */
    void allGather(List<MemorySegment> shares);

    /** Copies the bytes of one rank to all others. */
    void broadcast(MemorySegment data, int from);

    /** Sends bytes to another rank, and returns when they may be changed. Two messages between the same ranks arrive in their order. */
    void send(MemorySegment data, int to);

    /** Takes bytes that another rank sends, as many as it sends. */
    void receive(MemorySegment data, int from);

    /**
     * Sends bytes to another rank without waiting for it: they may be changed at once, since a copy of them waits. Ranks that pass on to each other in a circle thus never wait for
     * each other's receiving.
     *
     * @param channel from 0; messages of one channel between the same ranks arrive in their order, those of several may be taken in any
     */
    void post(MemorySegment data, int to, int channel);

    /**
     * Takes the next bytes that another rank has posted, or will.
     *
     * @param data as many as it posts
     */
    void take(MemorySegment data, int from, int channel);

    /** Returns when all ranks are here. */
    void barrier();

    /** A number of each rank, reduced in F32. */
    default float allReduce(float own, RankReduction reduction) {
        float[] one = {own};
        allReduce(one, reduction);
        return one[0];
    }

    /** As {@link #allReduce(MemorySegment, DType, RankReduction)}, of F32. */
    default void allReduce(float[] numbers, RankReduction reduction) {
        MemorySegment bytes = MemorySegment.ofArray(new byte[numbers.length * Float.BYTES]);
        MemorySegment.copy(numbers, 0, bytes, Tensor.F32_LE, 0, numbers.length);
        allReduce(bytes, DType.F32, reduction);
        MemorySegment.copy(bytes, Tensor.F32_LE, 0, numbers, 0, numbers.length);
    }

    /** Sums of numbers of all ranks in F64, added in the order of ranks; each rank has as many. */
    default double[] sums(double[] own) {
        ByteBuffer bytes = ByteBuffer.allocate(own.length * Double.BYTES);
        for (double x : own) {
            bytes.putDouble(x);
        }
        double[] sums = new double[own.length];
        for (byte[] each : gather(bytes.array())) {
            ByteBuffer read = ByteBuffer.wrap(each);
            for (int i = 0; i < sums.length; i++) {
                sums[i] += read.getDouble();
            }
        }
        return sums;
    }

    /** Bytes of each rank, of any number, in the order of ranks. */
    default List<byte[]> gather(byte[] own) {
        byte[] length = ByteBuffer.allocate(Integer.BYTES).putInt(own.length).array();
        byte[] lengths = new byte[length.length * size()];
        allGather(MemorySegment.ofArray(length), MemorySegment.ofArray(lengths));
        ByteBuffer numbers = ByteBuffer.wrap(lengths);
        int longest = 0;
        for (int r = 0; r < size(); r++) {
            longest = Math.max(longest, numbers.getInt(r * Integer.BYTES));
        }
        byte[] padded = new byte[longest];
        System.arraycopy(own, 0, padded, 0, own.length);
        byte[] all = new byte[Math.multiplyExact(longest, size())];
        allGather(MemorySegment.ofArray(padded), MemorySegment.ofArray(all));
        List<byte[]> each = new ArrayList<>();
        for (int r = 0; r < size(); r++) {
            byte[] of = new byte[numbers.getInt(r * Integer.BYTES)];
            System.arraycopy(all, r * longest, of, 0, of.length);
            each.add(of);
        }
        return each;
    }

    /**
     * This rank cannot go on, and the others are to end. Ranks that are threads end at once, with the name of this rank; processes when this one does, so that it can say
     * why.
     *
     * @param exitCode the exit code of the process
     */
    void abandon(int exitCode);

    /** Leaves the others in good order: returns when all do. */
    @Override
    void close();

    /** One rank, which needs no other. */
    static Collectives alone() {
        return new Alone();
    }
}
