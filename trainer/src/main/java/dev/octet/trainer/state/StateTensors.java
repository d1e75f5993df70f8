package dev.octet.trainer.state;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.file.ByteSink;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.trainer.kernel.CounterRandom;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.OperandType;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Whole tensors to and from a form, in host memory: what a run begins with, and what a checkpoint holds. */
public final class StateTensors {
    private static final int TILE = 2048;
    /** Elements decoded at a time: whole blocks of every form. */
    private static final int PIECE = 1 << 16;

    private StateTensors() {}

    /**
     * What stands for a tensor, by name, the codes under its own.
     *
     * @param tensor F32; a form that is F32 gives it back as it is
     */
    public static Map<String, Tensor> encode(StateForm form, Tensor tensor) {
        return encode(form, tensor, Arena.ofAuto());
    }

    /** The same in an arena. */
    public static Map<String, Tensor> encode(StateForm form, Tensor tensor, Arena arena) {
        if (form.isF32()) {
            return Map.of(tensor.name(), tensor);
        }
        Map<String, Tensor> all = new LinkedHashMap<>();
        List<CpuTensor> parts = new ArrayList<>();
        OperandType type = new OperandType(DType.F32, tensor.shape());
        for (StateForm.Part part : form.parts(type)) {
            String name = tensor.name() + part.suffix();
            Tensor made = Tensor.allocate(
                    arena, new TensorSpec(name, part.type().dtype(), part.type().shape()));
            CpuTensor kept = new CpuTensor(part.type(), made.bytes());
            if (form.initial(part) != 0) {
                kept.writeNumber(0, form.initial(part));
            }
            all.put(name, made);
            parts.add(kept);
        }
        CpuState state =
                new CpuState(form, parts, CounterRandom.key(0, tensor.name().hashCode()));
        CpuTensor from = new CpuTensor(type, tensor.bytes());
        float[] tile = new float[TILE];
        if (state.scalesTensor()) {
            float amax = 0;
            for (long at = 0; at < type.count(); at += TILE) {
                int n = (int) Math.min(TILE, type.count() - at);
                from.read(at, tile, 0, n);
                amax = Math.max(amax, CpuState.amax(tile, n));
            }
            state.rescale(amax);
        }
        for (long at = 0; at < type.count(); at += TILE) {
            int n = (int) Math.min(TILE, type.count() - at);
            from.read(at, tile, 0, n);
            state.write(at, tile, n);
        }
        return all;
    }

    /**
     * The numbers of a tensor in F32.
     *
     * @param codes its first part
     * @param parts the others, by name, and whatever else
     * @throws InvalidDataException when a part is missing or has another type or shape
     */
    public static Tensor decode(
            StateForm form, String name, Shape shape, Tensor codes, Map<String, Tensor> parts, Arena arena) {
        Tensor decoded = Tensor.allocate(arena, new TensorSpec(name, DType.F32, shape));
        long[] at = {0};
        try {
            decode(form, name, shape, codes, parts, piece -> {
                MemorySegment.copy(piece, 0, decoded.bytes(), at[0], piece.byteSize());
                at[0] += piece.byteSize();
            });
        } catch (IOException e) {
            throw new UncheckedIOException("memory is no file", e);
        }
        return decoded;
    }

    /**
     * The same, piece by piece: little-endian F32, in order.
     *
     * @throws IOException from the sink
     */
    public static void decode(
            StateForm form, String name, Shape shape, Tensor codes, Map<String, Tensor> parts, ByteSink sink)
            throws IOException {
        OperandType type = new OperandType(DType.F32, shape);
        List<CpuTensor> kept = new ArrayList<>();
        for (StateForm.Part part : form.parts(type)) {
            Tensor t = kept.isEmpty() ? codes : parts.get(name + part.suffix());
            if (t == null
                    || t.dtype() != part.type().dtype()
                    || !t.shape().equals(part.type().shape())) {
                throw new InvalidDataException(
                        "'" + name + part.suffix() + "' is " + (t == null ? "missing" : t.dtype() + " " + t.shape())
                                + ", but a tensor kept as " + form.text() + " needs " + part.type(),
                        "state of the checkpoint",
                        "resume with the model, data and configuration it was written with");
            }
            kept.add(new CpuTensor(part.type(), t.bytes()));
        }
        CpuState state = new CpuState(form, kept, 0);
        float[] tile = new float[PIECE];
        try (Arena own = Arena.ofConfined()) {
            MemorySegment piece = own.allocate(4L * PIECE, 64);
            for (long at = 0; at < type.count(); at += PIECE) {
                int n = (int) Math.min(PIECE, type.count() - at);
                state.read(at, tile, n);
                MemorySegment.copy(tile, 0, piece, Tensor.F32_LE, 0, n);
                sink.write(piece.asSlice(0, 4L * n));
            }
        }
    }
}
