package dev.octet.quant.layout;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.QuantType;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * Reads what torchao saves: tensors taken apart, {@code m.weight} into {@code m._weight_qdata}, {@code m._weight_scale} and more, with
 * JSON about {@code m.weight} in the metadata of the safetensors file. No layout to write, as only torchao reads it.
 *
 * <p>Scales in the order that matrix units want them ({@code is_swizzled_scales}) are not read; such weights have no scale here and a
 * note says so.
 *
 * <p>Source: torchao at 36027d8, {@code prototype/safetensors/safetensors_support.py} and the tensor classes it lists.
 */
final class Torchao {
    static final String NAME = "torchao";

    private static final String CODES = "_qdata";

    /** Longer texts are not those of one tensor. */
    private static final int MAX_METADATA = 1 << 20;

    private static final ObjectMapper JSON = new ObjectMapper();

    private final Headers headers;
    private final Map<String, TensorSpec> tensors;
    private final Map<String, String> metadata;
    private final List<String> notes = new ArrayList<>();

    private Torchao(Headers headers) {
        this.headers = headers;
        this.tensors = headers.tensors();
        this.metadata = headers.metadata();
    }

    /** The checkpoint; empty when none of its tensors is named as torchao names codes. */
    static Optional<StoredCheckpoint> recognise(Headers headers) {
        if (headers.tensors().keySet().stream().noneMatch(n -> weightName(n) != null)) {
            return Optional.empty();
        }
        return Optional.of(new Torchao(headers).read());
    }

    private StoredCheckpoint read() {
        WeightFinder finder = new WeightFinder(headers, _ -> WeightFinder.Expectation.NONE, notes);
        int swizzled = 0;
        for (TensorSpec data : tensors.values()) {
            String name = weightName(data.name());
            if (name == null) {
                continue;
            }
            JsonNode about = about(name);
            boolean unordered = about.path("_data").path("is_swizzled_scales").asBoolean(false);
            swizzled += unordered ? 1 : 0;
            weight(finder, name, data, about, unordered);
        }
        if (swizzled > 0) {
            notes.add("scales of " + swizzled + " weights are swizzled for matrix units, which is not read; save with"
                    + " is_swizzled_scales off");
        }
        return finder.find(NAME);
    }

    /** {@code m.weight} for {@code m._weight_qdata}; null for any other name. */
    private static @Nullable String weightName(String tensor) {
        int dot = tensor.lastIndexOf('.');
        String last = tensor.substring(dot + 1);
        return last.startsWith("_") && last.endsWith(CODES) && last.length() > CODES.length() + 1
                ? tensor.substring(0, dot + 1) + last.substring(1, last.length() - CODES.length())
                : null;
    }

    private void weight(WeightFinder finder, String name, TensorSpec data, JsonNode about, boolean unordered) {
        String stem = data.name().substring(0, data.name().length() - CODES.length());
        TensorSpec zeroPoint = tensors.get(stem + "_zero_point");
        Optional<QuantType> codes = codes(data, zeroPoint);
        Optional<Shape> shape = codes.flatMap(c -> WeightFinder.logicalShape(data, c));
        if (shape.isEmpty()) {
            notes.add("'" + name + "' is a " + about.path("_type").asText("tensor") + " of " + data.dtype()
                    + ", which is not read");
            return;
        }
        ScaleTensor found = unordered ? null : scale(stem);
        finder.add(finder.weight(
                new WeightFinder.Named(name, shape.orElseThrow(), codes.orElseThrow(), data),
                found,
                multiplier(stem + "_per_tensor_scale"),
                codes.orElseThrow().hasZeroPoint() ? zeroPoint : null,
                multiplier(stem + "_act_per_tensor_scale"),
                granularity(about.path("_data").path("block_size"), shape.orElseThrow())));
        if (unordered) {
            finder.take(stem + "_scale");
        }
        if (tensors.containsKey(stem + "_act_pre_scale")) {
            notes.add("'" + stem + "_act_pre_scale' multiplies an activation; '" + name
                    + "' is that of the smoothed model");
            finder.take(stem + "_act_pre_scale");
        }
    }

    private static Optional<QuantType> codes(TensorSpec data, @Nullable TensorSpec zeroPoint) {
        return switch (data.dtype()) {
            case F8_E4M3FN -> Optional.of(QuantType.E4M3FN);
            case F8_E5M2 -> Optional.of(QuantType.E5M2);
            case F8_E4M3FNUZ -> Optional.of(QuantType.E4M3FNUZ);
            case F8_E5M2FNUZ -> Optional.of(QuantType.E5M2FNUZ);
            case F4_E2M1, U8 -> Optional.of(QuantType.E2M1);
            case I8 ->
                zeroPoint == null
                        ? Optional.of(QuantType.INT8)
                        : zeroPoint.dtype() == DType.I8 ? Optional.of(QuantType.INT8_ASYMMETRIC) : Optional.empty();
            default -> Optional.empty();
        };
    }

    private @Nullable ScaleTensor scale(String stem) {
        TensorSpec spec = tensors.get(stem + "_scale");
        DType number = spec == null ? null : WeightFinder.scaleNumber(spec);
        return spec == null || number == null ? null : new ScaleTensor(spec, number, ScaleTensor.Direction.MULTIPLIER);
    }

    private @Nullable ScaleTensor multiplier(String name) {
        TensorSpec spec = tensors.get(name);
        return spec == null ? null : ScaleTensor.multiplier(spec);
    }

    /** What {@code block_size} says: an extent for each axis, or one number for the innermost. */
    private static @Nullable Granularity granularity(JsonNode blockSize, Shape shape) {
        if (blockSize.isInt() && blockSize.asInt() > 0) {
            return new Granularity.PerGroup(-1, blockSize.asInt());
        }
        int rank = shape.rank();
        if (!blockSize.isArray() || blockSize.size() != rank || rank < 2) {
            return null;
        }
        long rows = blockSize.path(rank - 2).asLong();
        long cols = blockSize.path(rank - 1).asLong();
        if (rows < 1 || cols < 1 || rows > Integer.MAX_VALUE || cols > Integer.MAX_VALUE) {
            return null;
        }
        if (rows == 1) {
            return cols == shape.dim(-1) ? new Granularity.PerChannel(-2) : new Granularity.PerGroup(-1, (int) cols);
        }
        return rows == shape.dim(-2) && cols == shape.dim(-1) && rank == 2
                ? new Granularity.PerTensor()
                : new Granularity.PerBlock((int) rows, (int) cols);
    }

    private JsonNode about(String name) {
        String text = metadata.get(name);
        if (text == null || text.length() > MAX_METADATA) {
            return JSON.missingNode();
        }
        try {
            return JSON.readTree(text);
        } catch (JsonProcessingException e) {
            notes.add("metadata of '" + name + "' is not JSON");
            return JSON.missingNode();
        }
    }
}
