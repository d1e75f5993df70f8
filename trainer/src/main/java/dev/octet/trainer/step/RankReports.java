package dev.octet.trainer.step;

import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.recipe.LinearTensor;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.hook.Fp8Tensor;
import dev.octet.trainer.reduction.ReductionReport;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/** What ranks tell each other of a step, so that one of them can speak of the whole model and of all micro-batches. */
final class RankReports {
    private RankReports() {}

    /** What a rank says. */
    interface Written {
        void to(DataOutputStream out) throws IOException;
    }

    /** Takes what a rank has said. */
    interface Read {
        void from(DataInputStream in) throws IOException;
    }

    /** Numbers of all stages by name; of one that several have, the last one's. */
    static Map<String, Float> numbers(Collectives pipeline, Map<String, Float> own) {
        Map<String, Float> all = new TreeMap<>();
        exchange(
                pipeline,
                out -> {
                    out.writeInt(own.size());
                    for (Map.Entry<String, Float> e : own.entrySet()) {
                        out.writeUTF(e.getKey());
                        out.writeFloat(e.getValue());
                    }
                },
                in -> {
                    for (int left = in.readInt(); left > 0; left--) {
                        all.put(in.readUTF(), in.readFloat());
                    }
                });
        return all;
    }

    /** Measurements of all stages, one stage's after another's. */
    static List<Fp8Tensor> tensors(Collectives pipeline, List<Fp8Tensor> own) {
        List<Fp8Tensor> all = new ArrayList<>();
        exchange(
                pipeline,
                out -> {
                    out.writeInt(own.size());
                    for (Fp8Tensor t : own) {
                        write(t, out);
                    }
                },
                in -> {
                    for (int left = in.readInt(); left > 0; left--) {
                        all.add(read(in));
                    }
                });
        return all;
    }

    /** How the averages of all stages fitted E4M3; they call it together. */
    static Optional<ReductionReport> reduction(Collectives pipeline, Optional<ReductionReport> own) {
        if (pipeline.isAlone()) {
            return own;
        }
        List<ReductionReport> all = new ArrayList<>();
        exchange(
                pipeline,
                out -> {
                    out.writeBoolean(own.isPresent());
                    if (own.isPresent()) {
                        write(own.get(), out);
                    }
                },
                in -> {
                    if (in.readBoolean()) {
                        all.add(new ReductionReport(
                                in.readLong(),
                                in.readLong(),
                                in.readUTF(),
                                in.readDouble(),
                                in.readFloat(),
                                in.readFloat()));
                    }
                });
        // the order of gradients: of tensors that are equally bad the one that backward comes to first
        return all.reversed().stream().reduce(ReductionReport::and);
    }

    private static void write(ReductionReport report, DataOutputStream out) throws IOException {
        out.writeLong(report.saturated());
        out.writeLong(report.elements());
        out.writeUTF(report.worst());
        out.writeDouble(report.worstShare());
        out.writeFloat(report.smallestPreScale());
        out.writeFloat(report.largestPreScale());
    }

    /**
     * F32 tensors of all stages by name; of one that several have, the first one's.
     *
     * @param arena owns the copies
     */
    static Map<String, Tensor> parameters(Collectives pipeline, Map<String, Tensor> own, Arena arena) {
        Map<String, Tensor> all = new TreeMap<>();
        exchange(
                pipeline,
                out -> {
                    out.writeInt(own.size());
                    for (Tensor t : own.values()) {
                        write(t, out);
                    }
                },
                in -> {
                    for (int left = in.readInt(); left > 0; left--) {
                        Tensor t = readTensor(in, arena);
                        all.putIfAbsent(t.name(), t);
                    }
                });
        return all;
    }

    private static void write(Tensor t, DataOutputStream out) throws IOException {
        out.writeUTF(t.name());
        out.writeInt(t.shape().rank());
        for (long dim : t.shape().toArray()) {
            out.writeLong(dim);
        }
        for (float x : t.toFloats()) {
            out.writeFloat(x);
        }
    }

    private static Tensor readTensor(DataInputStream in, Arena arena) throws IOException {
        String name = in.readUTF();
        long[] dims = new long[in.readInt()];
        for (int i = 0; i < dims.length; i++) {
            dims[i] = in.readLong();
        }
        Shape shape = Shape.of(dims);
        float[] elements = new float[Math.toIntExact(shape.elementCount())];
        for (int i = 0; i < elements.length; i++) {
            elements[i] = in.readFloat();
        }
        return Tensor.ofFloats(arena, name, shape, elements);
    }

    /**
     * All say something and hear what all say.
     *
     * @param each called for each rank, in their order
     */
    static void exchange(Collectives ranks, Written own, Read each) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (DataOutputStream out = new DataOutputStream(bytes)) {
            own.to(out);
            for (byte[] said : ranks.gather(bytes.toByteArray())) {
                each.from(new DataInputStream(new ByteArrayInputStream(said)));
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e); // not in memory
        }
    }

    private static void write(Fp8Tensor t, DataOutputStream out) throws IOException {
        out.writeUTF(t.slot());
        out.writeUTF(t.layer());
        out.writeUTF(t.tensor().name());
        out.writeUTF(t.format().name());
        out.writeLong(t.elements());
        out.writeLong(t.clipped());
        out.writeLong(t.underflowed());
        out.writeFloat(t.amax());
        out.writeFloat(t.scale());
        out.writeInt(t.historyLength());
        out.writeLong(t.scaleAge());
    }

    private static Fp8Tensor read(DataInputStream in) throws IOException {
        return new Fp8Tensor(
                in.readUTF(),
                in.readUTF(),
                LinearTensor.valueOf(in.readUTF()),
                Float8Format.valueOf(in.readUTF()),
                in.readLong(),
                in.readLong(),
                in.readLong(),
                in.readFloat(),
                in.readFloat(),
                in.readInt(),
                in.readLong());
    }
}
