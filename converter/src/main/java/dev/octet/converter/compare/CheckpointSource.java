package dev.octet.converter.compare;

import dev.octet.converter.checkpoint.WeightReader;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.layout.Headers;
import dev.octet.quant.layout.Layouts;
import dev.octet.quant.layout.ScaleTensor;
import dev.octet.quant.layout.StoredCheckpoint;
import dev.octet.quant.layout.StoredWeight;
import dev.octet.quant.number.QuantType;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** The weights of a safetensors checkpoint, in any layout. */
final class CheckpointSource implements WeightSource {
    private final Checkpoint checkpoint;
    private final StoredCheckpoint stored;
    private final WeightReader reader;
    private final Map<String, Weight> weights = new LinkedHashMap<>();
    private final Map<String, String> problems = new LinkedHashMap<>();

    private CheckpointSource(Checkpoint checkpoint, StoredCheckpoint stored) throws IOException {
        this.checkpoint = checkpoint;
        this.stored = stored;
        this.reader = WeightReader.of(checkpoint, stored);
        for (StoredWeight weight : stored.weights().values()) {
            addQuantized(weight);
        }
        stored.plain().values().forEach(this::addPlain);
        stored.others().values().forEach(this::addPlain);
    }

    /**
     * Opens a checkpoint and recognises its layout.
     *
     * @throws dev.octet.formats.error.OctetException when the checkpoint breaks a rule of its format
     */
    static CheckpointSource open(Path path) throws IOException {
        Checkpoint checkpoint = Checkpoint.open(path);
        boolean opened = false;
        try {
            CheckpointSource source = new CheckpointSource(checkpoint, recognise(checkpoint));
            opened = true;
            return source;
        } finally {
            if (!opened) {
                checkpoint.close();
            }
        }
    }

    /** The weights of an opened checkpoint, which the caller closes. */
    static CheckpointSource of(Checkpoint checkpoint) throws IOException {
        return of(checkpoint, recognise(checkpoint));
    }

    /** The same with the recognised weights of the checkpoint. */
    static CheckpointSource of(Checkpoint checkpoint, StoredCheckpoint stored) throws IOException {
        return new CheckpointSource(checkpoint, stored);
    }

    private static StoredCheckpoint recognise(Checkpoint checkpoint) throws IOException {
        return Layouts.recognise(Headers.of(
                checkpoint,
                ModelConfig.read(checkpoint.folder(), "hf_quant_config.json").orElse(null)));
    }

    private void addQuantized(StoredWeight weight) throws IOException {
        ScaleTensor scale = weight.scale();
        if (scale == null) {
            String unread = weight.unread();
            problems.put(weight.name(), unread == null ? weight.data().dtype() + " codes without a scale" : unread);
            return;
        }
        weights.put(
                weight.name(),
                new Weight(
                        weight.name(),
                        List.of(),
                        weight.shape(),
                        weight.form(),
                        NumberGrid.quantized(weight.codes(), scale.number()),
                        new Quantized(reader, weight),
                        new Scales(reader, weight),
                        inputScale(weight.inputScale())));
    }

    private double inputScale(@Nullable ScaleTensor scale) throws IOException {
        if (scale == null || scale.spec().shape().elementCount() != 1) {
            return Double.NaN;
        }
        StoredTensor tensor = checkpoint.tensor(scale.name());
        if (tensor == null) {
            return Double.NaN;
        }
        try (Arena arena = Arena.ofConfined()) {
            float value = PlainNumbers.get(scale.number(), checkpoint.read(tensor, arena), 0);
            return scale.direction() == ScaleTensor.Direction.DIVISOR ? 1 / value : value;
        }
    }

    private void addPlain(TensorSpec spec) {
        if (!PlainNumbers.readable(spec.dtype())) {
            problems.put(
                    spec.name(),
                    spec.dtype().isFloat() ? spec.dtype() + " codes without a scale" : spec.dtype() + " elements");
            return;
        }
        StoredTensor tensor = checkpoint.tensor(spec.name());
        if (tensor == null) {
            throw new IllegalArgumentException("there is no tensor '" + spec.name() + "'");
        }
        weights.put(
                spec.name(),
                new Weight(
                        spec.name(),
                        List.of(),
                        spec.shape(),
                        spec.dtype().safetensorsName().orElse(spec.dtype().name()),
                        NumberGrid.plain(spec.dtype()),
                        new Plain(checkpoint, tensor),
                        null,
                        Double.NaN));
    }

    /** An unquantised tensor; reading may start at any element. */
    private record Plain(Checkpoint checkpoint, StoredTensor tensor) implements Elements {
        @Override
        public long count() {
            return tensor.shape().elementCount();
        }

        @Override
        public long cols() {
            return Blocks.cols(tensor.shape());
        }

        @Override
        public long rowsOfMatrix() {
            return Blocks.rows(tensor.shape());
        }

        @Override
        public int rowAlignment() {
            return 0;
        }

        @Override
        public void read(long from, long to, MemorySegment values) throws IOException {
            DType type = tensor.dtype();
            long width = type.bits() / 8;
            if (type == DType.F32) {
                checkpoint.read(tensor, from * width, values);
                return;
            }
            try (Arena scratch = Arena.ofConfined()) {
                MemorySegment raw = scratch.allocate((to - from) * width, 64);
                checkpoint.read(tensor, from * width, raw);
                PlainNumbers.widen(type, raw, to - from, values);
            }
        }

        @Override
        public void readMultipliers(long from, long to, MemorySegment multipliers) {
            throw new IllegalStateException(tensor.spec() + " is not quantised");
        }
    }

    /** A quantised weight, read by whole rows of blocks. */
    private record Quantized(WeightReader reader, StoredWeight weight) implements Elements {
        @Override
        public long count() {
            return weight.shape().elementCount();
        }

        @Override
        public long cols() {
            return Blocks.cols(weight.shape());
        }

        @Override
        public long rowsOfMatrix() {
            return Blocks.rows(weight.shape());
        }

        @Override
        public int rowAlignment() {
            int rows = weight.granularity().rowAlignment();
            return rows == 1 && weight.codes() == QuantType.E2M1 ? 2 : rows; // two codes to a byte
        }

        @Override
        public void read(long from, long to, MemorySegment values) throws IOException {
            if (from < to) {
                reader.read(weight.name(), from / cols(), to / cols(), values);
            }
        }

        @Override
        public void readMultipliers(long from, long to, MemorySegment multipliers) throws IOException {
            if (from < to) {
                reader.readMultipliers(weight.name(), from / cols(), to / cols(), multipliers);
            }
        }
    }

    /** The scales of a quantised weight. */
    private record Scales(WeightReader reader, StoredWeight weight) implements ScaleList {
        @Override
        public Granularity granularity() {
            return weight.granularity();
        }

        @Override
        public long count() {
            return reader.scaleCount(weight.name());
        }

        @Override
        public void read(long from, long to, MemorySegment multipliers) throws IOException {
            reader.readScales(weight.name(), from, to, multipliers);
        }
    }

    @Override
    public String format() {
        return checkpoint.format().name() + ", "
                + (stored.layout().equals("plain") ? "not quantised" : stored.layout());
    }

    @Override
    public Map<String, Weight> weights() {
        return weights;
    }

    @Override
    public Map<String, String> problems() {
        return problems;
    }

    @Override
    public List<String> notes() {
        return stored.notes();
    }

    @Override
    public void close() throws IOException {
        checkpoint.close();
    }
}
