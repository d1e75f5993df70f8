package dev.octet.converter.verify;

import static java.util.Objects.requireNonNull;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.safetensors.SafetensorsHeader;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/**
 * A tiny Llama (two layers, the second a mixture of two experts) in memory, in any layout, without a fault; tests plant one and write it.
 * Names, shapes, types and directions are spelled out here from what the consumers read, not taken from Octet's own layouts.
 */
final class GoodCheckpoint {
    static final int HIDDEN = 256;
    static final int INTERMEDIATE = 512;
    static final int KEYS = 128;
    static final int VOCABULARY = 64;

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<Kind, GoodCheckpoint> MADE = new EnumMap<>(Kind.class);

    private static final String FLOAT8 = "\"num_bits\":8,\"type\":\"float\",\"symmetric\":true";
    private static final String GROUPS =
            "\"config_groups\":{\"group_0\":{\"targets\":[\"Linear\"],\"weights\":%s,\"input_activations\":%s}}";
    private static final String COMPRESSED = "{\"quant_method\":\"compressed-tensors\",\"format\":\"%s\","
            + "\"quantization_status\":\"compressed\",\"ignore\":[\"lm_head\",\"re:.*block_sparse_moe\\\\.gate$\"],"
            + GROUPS + "}";

    /** How the weights of a checkpoint are stored. */
    enum Kind {
        PLAIN,
        CT_TENSOR,
        CT_CHANNEL,
        CT_BLOCK,
        CT_MXFP8,
        CT_NVFP4,
        CT_INT8,
        CT_INT4,
        FP8_BLOCK,
        FP8_UE8M0,
        MODELOPT_FP8,
        MODELOPT_CHANNEL,
        MODELOPT_BLOCK,
        MODELOPT_MXFP8,
        MODELOPT_NVFP4;

        boolean isModelOpt() {
            return name().startsWith("MODELOPT");
        }

        boolean isCompressed() {
            return name().startsWith("CT");
        }

        /** For whom a checkpoint of this kind has no fault. */
        Set<Consumer> consumers() {
            if (this == PLAIN || this == FP8_BLOCK || this == FP8_UE8M0) {
                return Consumer.OF_CHECKPOINTS;
            }
            if (this == CT_MXFP8) {
                return Set.of(Consumer.VLLM, Consumer.TRANSFORMERS);
            }
            if (this == MODELOPT_CHANNEL || this == MODELOPT_BLOCK || this == MODELOPT_MXFP8) {
                return Set.of(Consumer.VLLM, Consumer.TENSORRT_LLM);
            }
            return isModelOpt()
                    ? Set.of(Consumer.VLLM, Consumer.SGLANG, Consumer.TENSORRT_LLM)
                    : Set.of(Consumer.VLLM, Consumer.SGLANG, Consumer.TRANSFORMERS);
        }
    }

    /** A tensor; bytes little-endian. */
    record Stored(DType dtype, List<Long> shape, ByteBuffer bytes) {
        TensorSpec spec(String name) {
            return new TensorSpec(
                    name, dtype, Shape.of(shape.stream().mapToLong(d -> d).toArray()));
        }

        Stored copy() {
            ByteBuffer copy = buffer(bytes.capacity());
            copy.put(0, bytes, 0, bytes.capacity());
            return new Stored(dtype, shape, copy);
        }
    }

    final Kind kind;
    final Map<String, Stored> tensors = new LinkedHashMap<>();
    final Map<String, String> metadata = new TreeMap<>(Map.of("format", "pt"));

    @Nullable
    ObjectNode config;

    @Nullable
    ObjectNode quantConfig;

    private GoodCheckpoint(Kind kind) {
        this.kind = kind;
    }

    /** A copy to plant faults in. */
    static GoodCheckpoint of(Kind kind) {
        GoodCheckpoint made;
        synchronized (MADE) {
            made = MADE.computeIfAbsent(kind, GoodCheckpoint::make);
        }
        GoodCheckpoint copy = new GoodCheckpoint(kind);
        made.tensors.forEach((name, tensor) -> copy.tensors.put(name, tensor.copy()));
        copy.config = requireNonNull(made.config).deepCopy();
        copy.quantConfig = made.quantConfig == null ? null : made.quantConfig.deepCopy();
        return copy;
    }

    static ByteBuffer buffer(int bytes) {
        return ByteBuffer.allocate(bytes).order(ByteOrder.LITTLE_ENDIAN);
    }

    private static GoodCheckpoint make(Kind kind) {
        GoodCheckpoint model = new GoodCheckpoint(kind);
        SplittableRandom random = new SplittableRandom(20261121);
        model.plain("model.embed_tokens.weight", random, VOCABULARY, HIDDEN);
        for (int layer = 0; layer < 2; layer++) {
            String block = "model.layers." + layer + ".";
            model.norm(block + "input_layernorm.weight");
            model.linears(
                    random,
                    block + "self_attn.",
                    new String[] {"q_proj", "k_proj", "v_proj"},
                    new int[] {HIDDEN, KEYS, KEYS},
                    HIDDEN);
            model.linears(random, block + "self_attn.", new String[] {"o_proj"}, new int[] {HIDDEN}, HIDDEN);
            if (kind == Kind.MODELOPT_FP8 || kind == Kind.CT_TENSOR) {
                String attention = block + "self_attn.";
                model.scalar(attention + (kind.isModelOpt() ? "k_proj.k_scale" : "k_scale"), 0.021f);
                model.scalar(attention + (kind.isModelOpt() ? "v_proj.v_scale" : "v_scale"), 0.034f);
            }
            model.norm(block + "post_attention_layernorm.weight");
            if (layer == 0) {
                model.mlp(random, block + "mlp.", "gate_proj", "up_proj", "down_proj");
            } else {
                model.plain(block + "block_sparse_moe.gate.weight", random, 2, HIDDEN);
                for (int expert = 0; expert < 2; expert++) {
                    model.mlp(random, block + "block_sparse_moe.experts." + expert + ".", "w1", "w3", "w2");
                }
            }
        }
        model.norm("model.norm.weight");
        model.plain("lm_head.weight", random, VOCABULARY, HIDDEN);
        model.configure();
        return model;
    }

    private void mlp(SplittableRandom random, String prefix, String gate, String up, String down) {
        linears(random, prefix, new String[] {gate, up}, new int[] {INTERMEDIATE, INTERMEDIATE}, HIDDEN);
        linears(random, prefix, new String[] {down}, new int[] {HIDDEN}, INTERMEDIATE);
    }

    private void norm(String name) {
        ByteBuffer bytes = buffer(HIDDEN * 2);
        for (int i = 0; i < HIDDEN; i++) {
            bytes.putShort(2 * i, BFloat16.fromFloat(1));
        }
        tensors.put(name, new Stored(DType.BF16, List.of((long) HIDDEN), bytes));
    }

    private void plain(String name, SplittableRandom random, int rows, int columns) {
        plain(name, values(random, rows, columns), rows, columns);
    }

    private void plain(String name, float[] values, int rows, int columns) {
        ByteBuffer bytes = buffer(values.length * 2);
        for (int i = 0; i < values.length; i++) {
            bytes.putShort(2 * i, BFloat16.fromFloat(values[i]));
        }
        tensors.put(name, new Stored(DType.BF16, List.of((long) rows, (long) columns), bytes));
    }

    /** Near-normal values that are BF16 numbers; rows and columns differ in size, so that no two blocks are alike. */
    private static float[] values(SplittableRandom random, int rows, int columns) {
        float[] values = new float[rows * columns];
        for (int i = 0; i < values.length; i++) {
            double sum = random.nextDouble() + random.nextDouble() + random.nextDouble() + random.nextDouble() - 2;
            double size = 0.02 * (1 + 3.0 * Math.floorDiv(i, columns) / rows + 1.5 * (i % columns) / columns);
            values[i] = BFloat16.toFloat(BFloat16.fromFloat((float) (sum * size)));
        }
        return values;
    }

    private static float amax(float[] values) {
        float amax = 0;
        for (float x : values) {
            amax = Math.max(amax, Math.abs(x));
        }
        return amax;
    }

    /** A group of modules that engines fuse, or one module alone. */
    private void linears(SplittableRandom random, String prefix, String[] names, int[] rows, int columns) {
        List<float[]> all = new ArrayList<>();
        float amax = 0;
        for (int rowCount : rows) {
            float[] values = values(random, rowCount, columns);
            all.add(values);
            amax = Math.max(amax, amax(values));
        }
        for (int i = 0; i < names.length; i++) {
            linear(prefix + names[i], all.get(i), rows[i], columns, amax);
        }
    }

    private void linear(String module, float[] x, int rows, int columns, float amax) {
        switch (kind) {
            case PLAIN -> plain(module + ".weight", x, rows, columns);
            case CT_TENSOR -> {
                blocks(module, "weight_scale", x, rows, columns, rows, columns, amax / 448, DType.F32, 1);
                put(module + ".input_scale", DType.F32, floats(0.017f), 1);
            }
            case MODELOPT_FP8 -> {
                blocks(module, "weight_scale", x, rows, columns, rows, columns, amax / 448, DType.F32);
                scalar(module + ".input_scale", 0.017f);
            }
            case CT_CHANNEL -> blocks(module, "weight_scale", x, rows, columns, 1, columns, 0, DType.BF16, rows, 1);
            case MODELOPT_CHANNEL -> blocks(module, "weight_scale", x, rows, columns, 1, columns, 0, DType.F32, rows);
            case CT_BLOCK ->
                blocks(module, "weight_scale", x, rows, columns, 128, 128, 0, DType.BF16, rows / 128, columns / 128);
            case FP8_BLOCK ->
                blocks(module, "weight_scale_inv", x, rows, columns, 128, 128, 0, DType.F32, rows / 128, columns / 128);
            case FP8_UE8M0 ->
                blocks(
                        module,
                        "weight_scale_inv",
                        x,
                        rows,
                        columns,
                        128,
                        128,
                        -1,
                        DType.F32,
                        rows / 128,
                        columns / 128);
            case MODELOPT_BLOCK ->
                blocks(
                        module,
                        "weight_scale",
                        x,
                        rows,
                        columns,
                        128,
                        128,
                        0,
                        DType.F32,
                        rows / 128,
                        1,
                        columns / 128,
                        1);
            case CT_MXFP8, MODELOPT_MXFP8 ->
                blocks(module, "weight_scale", x, rows, columns, 1, 32, -1, DType.U8, rows, columns / 32);
            case CT_INT8 -> integers(module, x, rows, columns);
            case CT_INT4 -> packed(module, x, rows, columns);
            case CT_NVFP4, MODELOPT_NVFP4 -> nvfp4(module, x, rows, columns, amax);
        }
    }

    /**
     * Codes of E4M3FN.
     *
     * @param given one scale for all; 0: amax / 448 of each block; below 0: the next power of two of that
     */
    private void blocks(
            String module,
            String scaleName,
            float[] x,
            int rows,
            int columns,
            int blockRows,
            int blockColumns,
            float given,
            DType scaleType,
            long... scaleShape) {
        int gridColumns = columns / blockColumns;
        float[] scales = new float[rows / blockRows * gridColumns];
        for (int i = 0; i < x.length; i++) {
            int block = i / columns / blockRows * gridColumns + i % columns / blockColumns;
            scales[block] = Math.max(scales[block], Math.abs(x[i]));
        }
        for (int b = 0; b < scales.length; b++) {
            float scale = given > 0 ? given : scales[b] / 448;
            scales[b] = given < 0 ? powerAbove(scale) : scaleType == DType.BF16 ? bf16(scale) : scale;
        }
        ByteBuffer codes = buffer(x.length);
        for (int i = 0; i < x.length; i++) {
            int block = i / columns / blockRows * gridColumns + i % columns / blockColumns;
            codes.put(i, (byte) Float8Format.E4M3FN.encode(x[i] / scales[block], Overflow.SATURATE));
        }
        tensors.put(module + ".weight", new Stored(DType.F8_E4M3FN, List.of((long) rows, (long) columns), codes));
        put(module + "." + scaleName, scaleType, encoded(scaleType, scales), scaleShape);
    }

    private static float powerAbove(float x) {
        float power = Math.scalb(1f, Math.getExponent(x));
        return power < x ? 2 * power : power;
    }

    private static float bf16(float x) {
        return BFloat16.toFloat(BFloat16.fromFloat(x));
    }

    private void integers(String module, float[] x, int rows, int columns) {
        float[] scales = new float[rows];
        ByteBuffer codes = buffer(x.length);
        for (int row = 0; row < rows; row++) {
            for (int c = 0; c < columns; c++) {
                scales[row] = Math.max(scales[row], Math.abs(x[row * columns + c]) / 127);
            }
            for (int c = 0; c < columns; c++) {
                codes.put(row * columns + c, (byte) Math.rint(x[row * columns + c] / scales[row]));
            }
        }
        tensors.put(module + ".weight", new Stored(DType.I8, List.of((long) rows, (long) columns), codes));
        put(module + ".weight_scale", DType.F32, floats(scales), rows, 1);
    }

    /** Eight codes in a word, offset by 8, the first in the lowest bits; groups of 128 inputs. */
    private void packed(String module, float[] x, int rows, int columns) {
        float[] scales = new float[x.length / 128];
        for (int i = 0; i < x.length; i++) {
            scales[i / 128] = Math.max(scales[i / 128], Math.abs(x[i]) / 7.5f);
        }
        ByteBuffer words = buffer(x.length / 2);
        for (int i = 0; i < x.length; i += 8) {
            int word = 0;
            for (int j = 0; j < 8; j++) {
                int code = (int) Math.clamp(Math.rint(x[i + j] / scales[i / 128]), -8, 7);
                word |= (code + 8) << (4 * j);
            }
            words.putInt(i / 2, word);
        }
        put(module + ".weight_packed", DType.I32, words, rows, columns / 8);
        put(module + ".weight_scale", DType.F32, floats(scales), rows, columns / 128);
        ByteBuffer shape = buffer(2 * Long.BYTES);
        shape.putLong(0, rows).putLong(Long.BYTES, columns);
        put(module + ".weight_shape", DType.I64, shape, 2);
    }

    private void nvfp4(String module, float[] x, int rows, int columns, float amax) {
        float divisor = 448 * 6 / amax;
        int groups = columns / 16;
        ByteBuffer scales = buffer(rows * groups);
        ByteBuffer codes = buffer(x.length / 2);
        for (int group = 0; group < rows * groups; group++) {
            float largest = 0;
            for (int i = 0; i < 16; i++) {
                largest = Math.max(largest, Math.abs(x[group * 16 + i]));
            }
            int scale = Float8Format.E4M3FN.encode(largest / 6 * divisor, Overflow.SATURATE);
            scales.put(group, (byte) scale);
            float step = Float8Format.E4M3FN.decode(scale) / divisor;
            for (int i = 0; i < 16; i += 2) {
                int low = Float8Format.E2M1.encode(x[group * 16 + i] / step, Overflow.SATURATE);
                int high = Float8Format.E2M1.encode(x[group * 16 + i + 1] / step, Overflow.SATURATE);
                codes.put((group * 16 + i) / 2, (byte) (low | high << 4));
            }
        }
        boolean compressed = kind == Kind.CT_NVFP4;
        tensors.put(
                module + (compressed ? ".weight_packed" : ".weight"),
                new Stored(DType.U8, List.of((long) rows, (long) columns / 2), codes));
        tensors.put(module + ".weight_scale", new Stored(DType.F8_E4M3FN, List.of((long) rows, (long) groups), scales));
        if (compressed) {
            put(module + ".weight_global_scale", DType.F32, floats(divisor), 1);
            put(module + ".input_global_scale", DType.F32, floats(350f), 1);
        } else {
            scalar(module + ".weight_scale_2", 1 / divisor);
            scalar(module + ".input_scale", 1 / 350f);
        }
    }

    void scalar(String name, float value) {
        tensors.put(name, new Stored(DType.F32, List.of(), floats(value)));
    }

    void put(String name, DType dtype, ByteBuffer bytes, long... shape) {
        List<Long> dims = new ArrayList<>();
        for (long d : shape) {
            dims.add(d);
        }
        tensors.put(name, new Stored(dtype, dims, bytes));
    }

    static ByteBuffer floats(float... values) {
        return encoded(DType.F32, values);
    }

    static ByteBuffer encoded(DType dtype, float... values) {
        ByteBuffer bytes = buffer(values.length * dtype.bits() / 8);
        for (int i = 0; i < values.length; i++) {
            switch (dtype) {
                case F32 -> bytes.putFloat(4 * i, values[i]);
                case BF16 -> bytes.putShort(2 * i, BFloat16.fromFloat(values[i]));
                case F16 -> bytes.putShort(2 * i, Float.floatToFloat16(values[i]));
                case U8, F8_E8M0 -> bytes.put(i, (byte) Float8Format.E8M0.encode(values[i], Overflow.SATURATE));
                default -> throw new IllegalArgumentException(dtype.toString());
            }
        }
        return bytes;
    }

    /** A tensor that must be there. */
    Stored tensor(String name) {
        return requireNonNull(tensors.get(name), name);
    }

    GoodCheckpoint remove(String name) {
        requireNonNull(tensors.remove(name), name);
        return this;
    }

    GoodCheckpoint rename(String from, String to) {
        Stored tensor = tensor(from);
        tensors.remove(from);
        tensors.put(to, tensor);
        return this;
    }

    /** Renames every tensor whose name ends so. */
    GoodCheckpoint renameAll(String ending, String to) {
        for (String name : List.copyOf(tensors.keySet())) {
            if (name.endsWith(ending)) {
                rename(name, name.substring(0, name.length() - ending.length()) + to);
            }
        }
        return this;
    }

    /** The same bytes with another shape. */
    GoodCheckpoint reshape(String name, long... shape) {
        Stored tensor = tensor(name);
        put(name, tensor.dtype, tensor.bytes, shape);
        return this;
    }

    /** Element {@code index} of an F32 tensor. */
    GoodCheckpoint set(String name, int index, float value) {
        tensor(name).bytes.putFloat(4 * index, value);
        return this;
    }

    /** A tensor of BF16 zeros. */
    GoodCheckpoint zeros(String name, long... shape) {
        long count = 1;
        for (long d : shape) {
            count *= d;
        }
        put(name, DType.BF16, buffer((int) count * 2), shape);
        return this;
    }

    ObjectNode config() {
        return requireNonNull(config);
    }

    ObjectNode quantization() {
        return (ObjectNode) config().path("quantization_config");
    }

    /** The one scheme of a compressed-tensors configuration. */
    ObjectNode group() {
        return (ObjectNode) quantization().path("config_groups").path("group_0");
    }

    ObjectNode quantConfig() {
        return (ObjectNode) requireNonNull(quantConfig).path("quantization");
    }

    static ObjectNode json(String text) {
        try {
            return (ObjectNode) JSON.readTree(text);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private void configure() {
        ObjectNode json =
                json("{\"architectures\":[\"MixtralForCausalLM\"],\"model_type\":\"mixtral\",\"hidden_size\":256,"
                        + "\"intermediate_size\":512,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
                        + "\"num_key_value_heads\":2,\"vocab_size\":64,\"tie_word_embeddings\":false}");
        config = json;
        String quantization = quantizationJson();
        if (!quantization.isEmpty()) {
            json.set("quantization_config", json(quantization));
        }
        if (kind.isModelOpt()) {
            ObjectNode nested = json("{\"producer\":{\"name\":\"modelopt\",\"version\":\"0.37.0\"}}");
            ObjectNode flat = (ObjectNode) json.path("quantization_config");
            ObjectNode inner = nested.putObject("quantization");
            inner.set("quant_algo", flat.path("quant_algo"));
            inner.set("kv_cache_quant_algo", kind == Kind.MODELOPT_FP8 ? flat.textNode("FP8") : flat.nullNode());
            inner.set("exclude_modules", flat.path("ignore"));
            quantConfig = nested;
        }
    }

    private String quantizationJson() {
        return switch (kind) {
            case PLAIN -> "";
            case CT_TENSOR ->
                withKv(COMPRESSED.formatted(
                        "float-quantized", args("tensor", "\"dynamic\":false"), args("tensor", "\"dynamic\":false")));
            case CT_CHANNEL ->
                COMPRESSED.formatted(
                        "float-quantized", args("channel", "\"dynamic\":false"), args("token", "\"dynamic\":true"));
            case CT_BLOCK ->
                COMPRESSED.formatted(
                        "float-quantized",
                        args("block", "\"dynamic\":false,\"block_structure\":[128,128]"),
                        args("group", "\"dynamic\":true,\"group_size\":128"));
            case CT_MXFP8 ->
                COMPRESSED.formatted(
                        "mxfp8-quantized",
                        args("group", "\"dynamic\":false,\"group_size\":32,\"scale_dtype\":\"torch.uint8\""),
                        args("group", "\"dynamic\":true,\"group_size\":32,\"scale_dtype\":\"torch.uint8\""));
            case CT_NVFP4 ->
                COMPRESSED.formatted("nvfp4-pack-quantized", four("\"dynamic\":false"), four("\"dynamic\":\"local\""));
            case CT_INT8 ->
                COMPRESSED.formatted(
                        "int-quantized",
                        "{\"num_bits\":8,\"type\":\"int\",\"symmetric\":true,\"strategy\":\"channel\",\"dynamic\":false}",
                        "{\"num_bits\":8,\"type\":\"int\",\"symmetric\":true,\"strategy\":\"token\",\"dynamic\":true}");
            case CT_INT4 ->
                COMPRESSED.formatted(
                        "pack-quantized",
                        "{\"num_bits\":4,\"type\":\"int\",\"symmetric\":true,\"strategy\":\"group\",\"group_size\":128,"
                                + "\"dynamic\":false}",
                        "null");
            case FP8_BLOCK ->
                "{\"quant_method\":\"fp8\",\"activation_scheme\":\"dynamic\",\"fmt\":\"e4m3\",\"weight_block_size\":[128,128]}";
            case FP8_UE8M0 ->
                "{\"quant_method\":\"fp8\",\"activation_scheme\":\"dynamic\",\"fmt\":\"e4m3\",\"weight_block_size\":[128,128],"
                    + "\"scale_fmt\":\"ue8m0\"}";
            case MODELOPT_FP8 ->
                modelOpt("FP8", "\"kv_cache_scheme\":{\"dynamic\":false,\"num_bits\":8,\"type\":\"float\"},");
            case MODELOPT_CHANNEL -> modelOpt("FP8_PER_CHANNEL_PER_TOKEN", "");
            case MODELOPT_BLOCK -> modelOpt("FP8_PB_WO", "");
            case MODELOPT_MXFP8 -> modelOpt("MXFP8", "");
            case MODELOPT_NVFP4 -> modelOpt("NVFP4", "");
        };
    }

    private static String args(String strategy, String rest) {
        return "{" + FLOAT8 + ",\"strategy\":\"" + strategy + "\"," + rest + "}";
    }

    private static String four(String rest) {
        return "{\"num_bits\":4,\"type\":\"float\",\"symmetric\":true,\"strategy\":\"tensor_group\",\"group_size\":16,"
                + rest + "}";
    }

    private static String withKv(String json) {
        return json.substring(0, json.length() - 1) + ",\"kv_cache_scheme\":" + args("tensor", "\"dynamic\":false")
                + "}";
    }

    private static String modelOpt(String algorithm, String rest) {
        return "{\"quant_method\":\"modelopt\",\"quant_algo\":\"" + algorithm + "\"," + rest
                + "\"ignore\":[\"lm_head\",\"model.layers.1.block_sparse_moe.gate\"],"
                + "\"producer\":{\"name\":\"modelopt\",\"version\":\"0.37.0\"}}";
    }

    /** Writes two files with an index and the configuration into an empty folder. */
    Path write(Path folder) throws IOException {
        Map<String, Stored> first = new LinkedHashMap<>();
        Map<String, Stored> second = new LinkedHashMap<>();
        tensors.forEach((name, tensor) -> (name.startsWith("model.layers.0.") ? first : second).put(name, tensor));
        writeFile(folder.resolve("model-00001-of-00002.safetensors"), first);
        writeFile(folder.resolve("model-00002-of-00002.safetensors"), second);
        ObjectNode index = JSON.createObjectNode();
        index.putObject("metadata")
                .put(
                        "total_size",
                        tensors.values().stream()
                                .mapToLong(t -> t.bytes.capacity())
                                .sum());
        ObjectNode map = index.putObject("weight_map");
        first.keySet().forEach(n -> map.put(n, "model-00001-of-00002.safetensors"));
        second.keySet().forEach(n -> map.put(n, "model-00002-of-00002.safetensors"));
        JSON.writeValue(folder.resolve("model.safetensors.index.json").toFile(), index);
        if (config != null) {
            JSON.writeValue(folder.resolve("config.json").toFile(), config);
        }
        if (quantConfig != null) {
            JSON.writeValue(folder.resolve("hf_quant_config.json").toFile(), quantConfig);
        }
        return folder;
    }

    /** One file with these tensors. */
    void writeFile(Path file, Map<String, Stored> contents) throws IOException {
        List<TensorSpec> specs = new ArrayList<>();
        contents.forEach((name, tensor) -> specs.add(tensor.spec(name)));
        SafetensorsHeader header = SafetensorsHeader.layout(specs, metadata);
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        bytes.write(header.toBytes());
        for (SafetensorsHeader.Entry entry : header.entries()) {
            ByteBuffer tensor = requireNonNull(contents.get(entry.spec().name())).bytes;
            byte[] copy = new byte[tensor.capacity()];
            tensor.get(0, copy);
            bytes.write(copy);
        }
        Files.write(file, bytes.toByteArray());
    }
}
