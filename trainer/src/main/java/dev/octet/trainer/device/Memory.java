package dev.octet.trainer.device;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.program.Value;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Collection;
import java.util.Optional;

/** Persistent values on a device, by name. */
public interface Memory extends AutoCloseable {
    /** Copies {@code bytes} (row-major, little-endian, the value's size) to the device. */
    void write(Value value, MemorySegment bytes);

    /** Whether what is written is kept; false where only sizes are wanted, and nothing need be written. */
    default boolean keeps() {
        return true;
    }

    /** Copies a value from the device, after waiting for the work that computes it. */
    void read(Value value, MemorySegment bytes);

    /**
     * A read-only view of a value's bytes, valid until the device computes again or the value is written. Devices that use host memory
     * return it directly, so that a checkpoint needs no second copy of weights and moments.
     *
     * @param arena owns the copy if one is needed
     */
    default MemorySegment view(Value value, Arena arena) {
        MemorySegment copy = arena.allocate(Math.max(1, value.type().byteSize()), 64)
                .asSlice(0, value.type().byteSize());
        read(value, copy);
        return copy;
    }

    /** The bytes of a value where they lie, for the host to change while no program runs; empty where they do not lie in its memory all the time. */
    default Optional<MemorySegment> hostBytes(Value value) {
        return Optional.empty();
    }

    /** Queues a copy of a value behind the work so far, without waiting. */
    default Fetched fetch(Value value) {
        MemorySegment copy = Arena.ofAuto().allocate(Math.max(1, value.type().byteSize()), 64);
        read(value, copy.asSlice(0, value.type().byteSize()));
        return () -> copy;
    }

    /** Starts work that is queued; whether it goes on while the host does something else. */
    default boolean start() {
        return false;
    }

    /** Fills with zeros. */
    void zero(Value value);

    /** Fills all of them with zeros. */
    default void zero(Collection<Value> values) {
        values.forEach(this::zero);
    }

    /**
     * Lets go of what {@link #view} brought into memory of a value that does not lie there between its uses; the view stays valid, and reading it again brings it
     * back.
     */
    default void settle(Value value) {}

    /** Room for {@code bytes} that wait for their value to be used, where the values themselves lie; freed when it is no longer referred to. */
    default MemorySegment aside(long bytes) {
        return Arena.ofAuto().allocate(Math.max(1, bytes), 64).asSlice(0, bytes);
    }

    /**
     * Joins this memory with those of other ranks, so that sums need not pass through the host; all ranks call it together.
     *
     * @throws dev.octet.formats.error.InvalidOptionException when the device has no library for that
     * @throws dev.octet.formats.error.UnavailableException when the library is not there, or cannot join these ranks
     */
    default RankSums sums(Collectives world) {
        throw new InvalidOptionException(
                "NCCL adds what lies on GPUs",
                "precision.gradient_reduction: nccl; " + world.name(),
                "use --device cuda, or gradient_reduction: f32");
    }

    /** Bytes of values that lie off the device between their uses, so far. */
    default long offloadedBytes() {
        return 0;
    }

    @Override
    void close();
}
