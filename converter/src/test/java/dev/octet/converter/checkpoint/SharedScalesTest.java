package dev.octet.converter.checkpoint;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.CheckpointConverter;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.calibrate.Absmax;
import dev.octet.quant.layout.LayoutOptions;
import dev.octet.quant.layout.Layouts;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import dev.octet.quant.statistics.DataPart;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.StatisticsAccumulator;
import dev.octet.quant.statistics.TensorStatistics;
import java.io.IOException;
import java.nio.FloatBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Scales that weights have in common, and static scales of what they read. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class SharedScalesTest {
    private static final String ATTENTION = "model.layers.0.self_attn.";
    private static final String MLP = "model.layers.0.mlp.";
    private static final List<String> QKV = List.of("q_proj", "k_proj", "v_proj");

    @TempDir
    Path folder;

    private Path source;
    private Path out;

    @BeforeEach
    void make() throws IOException {
        source = MadeCheckpoint.small(folder.resolve("source")).write();
        out = folder.resolve("out");
    }

    private float amax(String name) throws IOException {
        float amax = 0;
        for (float v : MadeCheckpoint.floats(source, name)) {
            amax = Math.max(amax, Math.abs(v));
        }
        return amax;
    }

    @Test
    void fused_weights_share_one_scale_even_from_different_files() throws IOException {
        ConversionRequest goal = new ConversionRequest.Quantize(
                Recipes.CHECKPOINT_FP8,
                MadeCheckpoint.layout("compressed-tensors"),
                new LayoutOptions(DType.F32, false, false));
        CheckpointResult result = MadeCheckpoint.run(source, goal, out);
        float largest = 0;
        float smallest = Float.MAX_VALUE;
        for (String p : QKV) {
            float amax = amax(ATTENTION + p + ".weight");
            largest = Math.max(largest, amax);
            smallest = Math.min(smallest, amax);
        }
        for (String p : QKV) {
            assertEquals(largest / 448, MadeCheckpoint.floats(out, ATTENTION + p + ".weight_scale")[0], p);
        }
        assertEquals(
                amax(ATTENTION + "o_proj.weight") / 448,
                MadeCheckpoint.floats(out, ATTENTION + "o_proj.weight_scale")[0]);
        List<String> groups =
                result.sharedScales().stream().map(SharedScale::group).sorted().toList();
        assertEquals(List.of(MLP + "gate_up_proj", ATTENTION + "qkv_proj"), groups);
        SharedScale qkv = result.sharedScales().stream()
                .filter(s -> s.group().endsWith("qkv_proj"))
                .findFirst()
                .orElseThrow();
        assertEquals(
                QKV.stream().map(p -> ATTENTION + p + ".weight").sorted().toList(),
                qkv.members().stream().sorted().toList());
        assertEquals(largest / smallest, qkv.ratio(), 1e-6);
        double worst = 0;
        for (String p : QKV) {
            worst = Math.max(worst, lost(ATTENTION + p + ".weight", largest / 448));
        }
        assertEquals(worst, qkv.lostDb(), 0.001);
    }

    /** Decibels between a weight's own scale and {@code shared}, from the definitions, in double precision. */
    private double lost(String name, float shared) throws IOException {
        float[] x = MadeCheckpoint.floats(source, name);
        return noise(x, shared) - noise(x, amax(name) / 448);
    }

    private static double noise(float[] x, float scale) {
        double noise = 0;
        for (float v : x) {
            double back = (double) Float8Format.E4M3FN.decode(Float8Format.E4M3FN.encode(v / scale, Overflow.SATURATE))
                    * scale;
            noise += (v - back) * (v - back);
        }
        return 10 * Math.log10(noise);
    }

    @Test
    void a_weight_of_zeros_does_not_count_in_what_sharing_costs() throws IOException {
        String gate = "model.layers.1.mlp.gate_proj.weight";
        String up = "model.layers.1.mlp.up_proj.weight";
        Path zeros = MadeCheckpoint.in(folder.resolve("zeros"))
                .with("model.safetensors", MadeCheckpoint.bytes(DType.BF16, gate, new byte[128 * 128 * 2], 128, 128))
                .noise("model.safetensors", up, 0.02, 128, 128)
                .write();
        CheckpointResult result =
                MadeCheckpoint.run(zeros, MadeCheckpoint.goal(Recipes.CHECKPOINT_FP8, "compressed-tensors"), out);
        assertEquals(1, result.sharedScales().getFirst().ratio());
        assertEquals(0, result.sharedScales().getFirst().lostDb());
        assertEquals(MadeCheckpoint.floats(out, up + "_scale")[0], MadeCheckpoint.floats(out, gate + "_scale")[0]);
    }

    @Test
    void second_level_scales_are_the_same_in_a_group_and_bring_its_largest_value_to_the_top() throws IOException {
        MadeCheckpoint.run(source, MadeCheckpoint.goal(Recipes.NVFP4, "compressed-tensors"), out);
        float largest = 0;
        for (String p : QKV) {
            largest = Math.max(largest, amax(ATTENTION + p + ".weight"));
        }
        double wanted = 448.0 * 6 / largest;
        for (String p : QKV) {
            float stored = MadeCheckpoint.floats(out, ATTENTION + p + ".weight_global_scale")[0];
            assertEquals(wanted, stored, wanted * 0x1p-22, p); // a quotient and its reciprocal, each rounded
        }
    }

    /** Statistics in which the input of each module has its largest magnitude. */
    private static Statistics statistics(Map<String, Float> largest) {
        Map<String, TensorStatistics> tensors = new LinkedHashMap<>();
        largest.forEach((module, amax) -> {
            StatisticsAccumulator seen = new StatisticsAccumulator();
            if (amax > 0) {
                seen.add(FloatBuffer.wrap(new float[] {amax / 3, -amax, 0}));
            }
            tensors.put(module, seen.snapshot());
        });
        return Statistics.of("ab", new DataPart("cd", "data", 1, 1), tensors);
    }

    private List<String> weights() throws IOException {
        return MadeCheckpoint.names(source).stream()
                .filter(n -> n.contains("_proj.weight"))
                .toList();
    }

    private Map<String, Float> inputs() throws IOException {
        Map<String, Float> largest = new LinkedHashMap<>();
        float next = 1;
        for (String weight : weights()) {
            largest.put(weight.replace(".weight", ""), next++);
        }
        return largest;
    }

    @ParameterizedTest
    @CsvSource({
        "fp8, compressed-tensors, input_scale, 448, 1, false",
        "fp8, fp8, input_scale, 448, 1, false",
        "fp8, modelopt, input_scale, 448, 0, false",
        "nvfp4, compressed-tensors, input_global_scale, 2688, 1, true",
        "nvfp4, modelopt, input_scale, 2688, 0, false"
    })
    void input_scales_have_the_direction_and_shape_of_the_layout(
            String recipeName, String target, String suffix, double top, int rank, boolean divisor) throws IOException {
        Recipe recipe = recipeName.equals("fp8") ? Recipes.CHECKPOINT_FP8 : Recipes.NVFP4;
        Map<String, Float> largest = inputs();
        InputScales scales = InputScales.of(statistics(largest), new Absmax(), recipe, weights());
        ConversionRequest goal = new ConversionRequest.Quantize(
                recipe, Layouts.named(target).orElseThrow(), new LayoutOptions(DType.F32, false, true));
        CheckpointConverter.Request request = CheckpointConverter.Request.of(Selection.ALL_LINEARS, scales.byModule());
        MadeCheckpoint.run(source, goal, request, out, MadeCheckpoint.threads(2));
        try (CheckpointConverter converter = CheckpointConverter.open(out)) {
            for (String module : largest.keySet()) {
                double clip =
                        fused(module).stream().mapToDouble(largest::get).max().orElseThrow();
                String name = module + "." + suffix;
                Tensorlike tensor = new Tensorlike(converter, name);
                double expected = divisor ? top / clip : clip / top;
                assertEquals(expected, tensor.value(out), expected * 0x1p-22, name);
                assertEquals(rank, tensor.rank(), name);
            }
        }
    }

    private record Tensorlike(CheckpointConverter converter, String name) {
        double value(Path out) throws IOException {
            return MadeCheckpoint.floats(out, name)[0];
        }

        int rank() {
            return requireNonNull(converter.checkpoint().tensor(name), name)
                    .shape()
                    .rank();
        }
    }

    /** The modules that engines fuse with this one. */
    private static List<String> fused(String module) {
        String parent = module.substring(0, module.lastIndexOf('.') + 1);
        String last = module.substring(parent.length());
        List<String> all = QKV.contains(last)
                ? QKV
                : List.of("gate_proj", "up_proj").contains(last) ? List.of("gate_proj", "up_proj") : List.of(last);
        return all.stream().map(p -> parent + p).toList();
    }

    @Test
    void an_expert_that_saw_no_sample_gets_the_largest_scale_of_its_siblings_and_is_listed() {
        Map<String, Float> largest = new LinkedHashMap<>();
        List<String> weights = new ArrayList<>();
        for (int e = 0; e < 4; e++) {
            String module = "model.layers.3.mlp.experts." + e + ".down_proj";
            weights.add(module + ".weight");
            largest.put(module, e == 2 ? 0f : 1f + e);
        }
        largest.remove("model.layers.3.mlp.experts.1.down_proj"); // not even in the file
        InputScales scales = InputScales.of(statistics(largest), new Absmax(), Recipes.CHECKPOINT_FP8, weights);
        assertEquals(4f / 448, scales.byModule().get("model.layers.3.mlp.experts.1.down_proj"));
        assertEquals(4f / 448, scales.byModule().get("model.layers.3.mlp.experts.2.down_proj"));
        assertEquals(1f / 448, scales.byModule().get("model.layers.3.mlp.experts.0.down_proj"));
        assertEquals(
                List.of("model.layers.3.mlp.experts.1.down_proj", "model.layers.3.mlp.experts.2.down_proj"),
                scales.unreached());
    }

    @Test
    void a_weight_whose_input_the_statistics_do_not_know_is_refused_by_name() throws IOException {
        Map<String, Float> largest = inputs();
        largest.remove(MLP + "down_proj");
        InputScales scales = InputScales.of(statistics(largest), new Absmax(), Recipes.CHECKPOINT_FP8, weights());
        ConversionRequest goal = new ConversionRequest.Quantize(
                Recipes.CHECKPOINT_FP8, Layouts.named("fp8").orElseThrow(), new LayoutOptions(DType.F32, false, true));
        CheckpointConverter.Request request = CheckpointConverter.Request.of(Selection.ALL_LINEARS, scales.byModule());
        InvalidDataException refusal = assertThrows(
                InvalidDataException.class,
                () -> MadeCheckpoint.run(source, goal, request, out, MadeCheckpoint.threads(1)));
        assertTrue(refusal.what().contains(MLP + "down_proj"), refusal.what());
    }

    @Test
    void statistics_of_another_model_and_statistics_with_nan_are_refused() throws IOException {
        List<String> weights = weights();
        assertThrows(
                InvalidDataException.class,
                () -> InputScales.of(
                        statistics(Map.of("encoder.0", 1f)), new Absmax(), Recipes.CHECKPOINT_FP8, weights));
        StatisticsAccumulator seen = new StatisticsAccumulator();
        seen.add(FloatBuffer.wrap(new float[] {1, Float.NaN}));
        Statistics nan =
                Statistics.of("ab", new DataPart("cd", "data", 1, 1), Map.of(MLP + "down_proj", seen.snapshot()));
        InvalidDataException refusal = assertThrows(
                InvalidDataException.class, () -> InputScales.of(nan, new Absmax(), Recipes.CHECKPOINT_FP8, weights));
        assertTrue(refusal.where().contains(MLP + "down_proj"), refusal.where());
    }

    @Test
    void experts_in_one_tensor_have_scales_of_their_own() throws IOException {
        String name = "model.layers.0.mlp.experts.gate_up_proj";
        Tensor experts = MadeCheckpoint.noise(DType.BF16, name, 0.02, 3, 256, 128);
        MadeCheckpoint.set(experts, 2 * 256 * 128 + 5, 10); // the largest value, in the third
        Path moe = MadeCheckpoint.in(folder.resolve("moe"))
                .with("model.safetensors", experts)
                .write();
        MadeCheckpoint.run(moe, MadeCheckpoint.goal(Recipes.FP8_BLOCK, "fp8"), out);
        float[] scales = MadeCheckpoint.floats(out, name + "_scale_inv");
        assertEquals(3 * 2, scales.length);
        for (int block = 0; block < scales.length; block++) {
            float amax = 0;
            float[] values = MadeCheckpoint.floats(moe, name);
            for (int i = block * 128 * 128; i < (block + 1) * 128 * 128; i++) {
                amax = Math.max(amax, Math.abs(values[i]));
            }
            assertEquals(amax / 448, scales[block], "block " + block);
        }
    }
}
