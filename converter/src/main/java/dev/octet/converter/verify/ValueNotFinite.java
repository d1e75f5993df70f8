package dev.octet.converter.verify;

import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Set;

/** Tensors that are not quantised and hold NaN or infinity. */
final class ValueNotFinite extends CheckpointRule {
    ValueNotFinite() {
        super(
                "value-not-finite",
                Severity.ERROR,
                Consumer.OF_CHECKPOINTS,
                "No tensor holds NaN or infinity.",
                "look at the training run; put back a sound checkpoint",
                "NVIDIA/Model-Optimizer#1397");
    }

    private static final int PIECE_BYTES = 1 << 20;
    private static final Set<DType> FLOATS = Set.of(DType.BF16, DType.F16, DType.F32);

    @Override
    public boolean deep() {
        return true;
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) throws IOException {
        Set<String> plain = subject.stored().plain().keySet();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment buffer = arena.allocate(PIECE_BYTES, 64);
            for (StoredTensor tensor : subject.checkpoint().tensors().values()) {
                if (plain.contains(tensor.name()) && FLOATS.contains(tensor.dtype())) {
                    long count = count(subject, tensor, buffer);
                    if (count > 0) {
                        findings.add(
                                this,
                                "a tensor holds NaN or infinity",
                                tensor.name(),
                                count + " of " + tensor.shape().elementCount());
                    }
                }
            }
        }
    }

    private static long count(CheckpointSubject subject, StoredTensor tensor, MemorySegment buffer) throws IOException {
        long found = 0;
        long bytes = tensor.spec().byteSize();
        for (long from = 0; from < bytes; from += PIECE_BYTES) {
            MemorySegment piece = buffer.asSlice(0, Math.min(PIECE_BYTES, bytes - from));
            subject.checkpoint().read(tensor, from, piece);
            found += notFinite(tensor.dtype(), piece);
        }
        return found;
    }

    /** Elements whose exponent is all ones. */
    private static long notFinite(DType type, MemorySegment piece) {
        long found = 0;
        if (type == DType.F32) {
            for (long i = 0; i < piece.byteSize(); i += Integer.BYTES) {
                found += (piece.get(Tensor.I32_LE, i) & 0x7F800000) == 0x7F800000 ? 1 : 0;
            }
            return found;
        }
        int ones = type == DType.BF16 ? 0x7F80 : 0x7C00;
        for (long i = 0; i < piece.byteSize(); i += Short.BYTES) {
            found += (piece.get(Tensor.I16_LE, i) & ones) == ones ? 1 : 0;
        }
        return found;
    }
}
