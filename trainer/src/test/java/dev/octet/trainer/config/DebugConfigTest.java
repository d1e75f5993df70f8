package dev.octet.trainer.config;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.quant.recipe.LinearTensor;
import dev.octet.quant.recipe.Product;
import dev.octet.trainer.observe.CastStatistic;
import dev.octet.trainer.observe.DebugSection;
import dev.octet.trainer.observe.DebugSettings;
import dev.octet.trainer.observe.Feature;
import dev.octet.trainer.observe.LayerSelection;
import dev.octet.trainer.observe.ObservedTensor;
import dev.octet.trainer.observe.StepGate;
import dev.octet.trainer.observe.TensorStatistic;
import dev.octet.trainer.yaml.YamlFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Debug files of Transformer Engine, and {@code debug:} of a run, as they are read. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class DebugConfigTest {
    private static final String RUN =
            "data: {train: x}\nloss: {type: mse}\nsteps: 1\noptimizer: {type: adamw, lr: 1}\n";

    @TempDir
    Path folder;

    private DebugSettings read(String debug) {
        return TrainingConfig.of(YamlFile.parse(RUN + debug, "run.yaml"), folder)
                .debug();
    }

    /** A section with one feature, whose keys are given. */
    private List<Feature> feature(String name, String keys) {
        return read("debug: {one: {enabled: true, layers: {layer_types: [all]}, transformer_engine: {" + name
                        + ": {enabled: true" + (keys.isEmpty() ? "" : ", " + keys) + "}}}}")
                .sections()
                .getFirst()
                .features();
    }

    private String error(String name, String keys) {
        return assertThrows(InvalidOptionException.class, () -> feature(name, keys))
                .toString();
    }

    @Test
    void a_file_of_transformer_engine_is_read_as_it_is() throws IOException {
        Files.writeString(folder.resolve("te.yaml"), """
            log_everything:
              enabled: True
              layers:
                layer_name_regex_pattern: .*(fc1|self_attn).*
              transformer_engine:
                LogTensorStats:
                  enabled: True
                  stats: [min, max, mean, std, l1_norm, l2_norm, cur_amax, dynamic_range]
                  tensors: [activation, gradient, weight]
                  freq: 1
                  start_step: 0
                  end_step: 5
                LogFp8TensorStats:
                  enabled: True
                  tensors_struct:
                  - tensor: activation
                    stats: [mxfp8_underflows%, fp8_block_scaling_mse_columnwise]
                    freq: 1
                  - tensor: gradient
                    stats: [underflows%, overflows%]
                    freq: 5
                    start_end_list: [[0, 20], [50, 60]]
            fc2_in_bf16:
              enabled: True
              layers:
                layer_types: [fc2]
              transformer_engine:
                DisableFP8GEMM:
                  enabled: True
                  gemms: [dgrad, wgrad]
            left_out:
              enabled: False
            """);
        DebugSettings settings = read("debug: te.yaml");
        assertEquals(settings.sections(), read("debug: {file: te.yaml}").sections());
        assertEquals(
                List.of("log_everything", "fc2_in_bf16"),
                settings.sections().stream().map(DebugSection::name).toList());
        List<Feature> features = settings.sections().getFirst().features();
        StepGate six = new StepGate(1, List.of(new StepGate.Range(0, 5)));
        assertEquals(
                new Feature.LogTensorStats(
                        ObservedTensor.GRADIENT,
                        List.copyOf(TensorStatistic.OfAll.byLabel().values()),
                        six),
                features.get(1));
        Feature.LogFp8TensorStats gradient = assertInstanceOf(Feature.LogFp8TensorStats.class, features.get(4));
        assertEquals(new StepGate(5, List.of(new StepGate.Range(0, 20), new StepGate.Range(50, 60))), gradient.gate());
        assertEquals(
                List.of("underflows%", "overflows%"),
                gradient.stats().stream().map(CastStatistic::label).toList());
        assertEquals(
                List.of(new Feature.DisableQuantization(Set.of(Product.DGRAD, Product.WGRAD))),
                settings.sections().get(1).features());
        assertEquals(1, settings.notes().size());
        assertTrue(
                settings.notes().getFirst().contains("te.yaml, line 28"),
                settings.notes().toString());
        assertTrue(
                settings.notes().getFirst().contains("DisableFP8GEMM is DisableQuantizationGEMM by its earlier name"));
    }

    @Test
    void where_the_file_is_gone_the_copy_next_to_the_configuration_is_read() throws IOException {
        Path kept = Files.createDirectory(folder.resolve("kept"));
        String sections =
                "one: {enabled: true, layers: {layer_types: [all]}, transformer_engine: {DisableQuantizationLayer:"
                        + " {enabled: true}}}\n";
        Files.writeString(kept.resolve(DebugSettings.KEPT_FILE), sections);
        Files.writeString(kept.resolve("config.yaml"), RUN + "debug: gone.yaml\n");
        DebugSettings found = TrainingConfig.of(YamlFile.read(kept.resolve("config.yaml")), folder)
                .debug();
        assertEquals(1, found.sections().size());
        assertEquals(folder.resolve("gone.yaml"), found.file().orElseThrow());
    }

    @Test
    void without_the_key_nothing_is_looked_at_and_no_setting_appears() {
        TrainingConfig config = TrainingConfig.of(YamlFile.parse(RUN, "run.yaml"), folder);
        assertEquals(DebugSettings.NONE, config.debug());
        assertTrue(Settings.of(config).keySet().stream().noneMatch(k -> k.startsWith("debug")));
    }

    @Test
    void the_keys_of_an_item_count_before_those_of_the_feature() {
        List<Feature> features = feature(
                "LogTensorStats",
                "stats: [mean], freq: 10, tensors_struct: [{tensor: output}, {tensor: dgrad, freq: 2, stats: [std]}]");
        assertEquals(
                List.of(
                        new Feature.LogTensorStats(
                                ObservedTensor.OUTPUT,
                                List.of(TensorStatistic.OfAll.MEAN),
                                new StepGate(10, StepGate.ALWAYS.ranges())),
                        new Feature.LogTensorStats(
                                ObservedTensor.DGRAD,
                                List.of(TensorStatistic.OfAll.STD),
                                new StepGate(2, StepGate.ALWAYS.ranges()))),
                features);
    }

    @Test
    void a_blockwise_range_is_named_with_its_block() {
        List<Feature> features = feature(
                "LogTensorStats",
                "tensors: [weight, gradient], stats: [max_blockwise_dynamic_range,"
                        + " {max_blockwise_dynamic_range: {block_size: 128, dims: 2}}]");
        List<List<String>> labels = features.stream()
                .map(f -> ((Feature.LogTensorStats) f)
                        .stats().stream().map(TensorStatistic::label).toList())
                .toList();
        assertEquals(
                List.of(
                        List.of(
                                "max_blockwise_dynamic_range_block_size_32_dims_1_max_over_orientations",
                                "max_blockwise_dynamic_range_block_size_128_dims_2_max_over_orientations"),
                        List.of(
                                "max_blockwise_dynamic_range_block_size_32_dims_1",
                                "max_blockwise_dynamic_range_block_size_128_dims_2")),
                labels);
    }

    @Test
    void tensors_of_several_products_go_to_those_that_read_or_make_them() {
        Set<Feature> expected = Set.of(
                new Feature.FakeQuant(Product.FPROP, ObservedTensor.ACTIVATION, Feature.Format.FP8E4M3),
                new Feature.FakeQuant(Product.FPROP, ObservedTensor.OUTPUT, Feature.Format.FP8E4M3),
                new Feature.FakeQuant(Product.WGRAD, ObservedTensor.ACTIVATION, Feature.Format.FP8E4M3));
        assertEquals(
                expected,
                Set.copyOf(feature(
                        "FakeQuant", "gemms: [fprop, wgrad], tensors: [activation, output], quant_format: FP8E4M3")));
        assertEquals(
                List.of(
                        new Feature.PerTensorScaling(Product.DGRAD, LinearTensor.GRAD_OUTPUT),
                        new Feature.PerTensorScaling(Product.FPROP, LinearTensor.WEIGHT)),
                feature(
                        "PerTensorScaling",
                        "gemms_struct: [{gemm: dgrad, tensors: [gradient]}, {gemm: fprop, tensors_struct: [{tensor:"
                                + " weight}]}]"));
        assertEquals(
                Map.of(Product.FPROP, Feature.Format.MXFP8E5M2, Product.DGRAD, Feature.Format.FP8E5M2),
                feature(
                                "FakeQuant",
                                "quant_format: FP8E5M2, tensors: [weight], gemms_struct: [{gemm: fprop, quant_format:"
                                        + " MXFP8E5M2}, {gemm: dgrad}]")
                        .stream()
                        .map(Feature.FakeQuant.class::cast)
                        .collect(Collectors.toMap(Feature.FakeQuant::product, Feature.FakeQuant::format)));
    }

    @Test
    void layers_are_selected_by_the_first_rule_that_is_given() {
        DebugSettings settings = read("""
            debug:
              a: {enabled: true, layers: {exact_layer_names: [x.fc1], layer_types: [all]}, transformer_engine: {DisableQuantizationLayer: {enabled: true}}}
              b: {enabled: true, layers: {layer_numbers: [0, 2-3], layer_types: [fc]}, transformer_engine: {DisableQuantizationLayer: {enabled: true}}}
              c: {enabled: true, layers: {layer_numbers: all}, transformer_engine: {DisableQuantizationLayer: {enabled: true}}}
            """.replace("layer_types: [all]}, t", "}, t"));
        assertEquals(
                List.of(
                        new LayerSelection.Exact(List.of("x.fc1")),
                        new LayerSelection.Kinds(
                                List.of(new StepGate.Range(0, 0), new StepGate.Range(2, 3)), List.of("fc")),
                        new LayerSelection.Kinds(List.of(), List.of())),
                settings.sections().stream().map(DebugSection::layers).toList());
    }

    @Test
    void an_unknown_feature_is_refused_with_its_line_the_nearest_and_all_valid_ones() {
        InvalidOptionException e = assertThrows(InvalidOptionException.class, () -> read("""
            debug:
              one:
                enabled: true
                layers: {layer_types: [all]}
                transformer_engine:
                  LogFP8TensorStat: {enabled: true}
            """));
        assertTrue(e.what().contains("unknown feature 'LogFP8TensorStat'"), e.what());
        assertTrue(e.where().contains("run.yaml, line 10"), e.where());
        assertTrue(e.fix().contains("did you mean LogFp8TensorStats"), e.fix());
        assertTrue(
                e.fix().contains("valid: LogTensorStats, LogFp8TensorStats, LogNvfp4TensorStats, DumpTensors"),
                e.fix());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "LogTensorStats | tensors: [weight], stats: [mean], gemms: [fprop] | unknown key",
                "LogTensorStats | tensors: [weight], stats: [underflows%] | it is one of LogFp8TensorStats",
                "LogTensorStats | tensors: [weights], stats: [mean] | unknown tensor 'weights'",
                "LogTensorStats | tensors: [weight] | the key stats is missing",
                "LogTensorStats | stats: [mean] | neither tensors nor tensors_struct",
                "LogTensorStats | tensors: [weight], stats: [mean], freq: 0 | out of range",
                "LogTensorStats | tensors: [weight], stats: [mean], start_step: 3, end_step: 2 | are none",
                "LogTensorStats | tensors: [weight], stats: [mean], start_end_list: [3, 4] | pairs of numbers",
                "LogFp8TensorStats | tensors: [output], stats: [mse] | unknown tensor 'output'",
                "LogFp8TensorStats | tensors: [weight], stats: [mxfp8_overflows%] | unknown statistic",
                "LogFp8TensorStats | tensors: [weight], stats: [fp8_current_scaling_mse_columnwise] | unknown"
                        + " statistic",
                "LogNvfp4TensorStats | tensors: [weight], stats: [scale_inv_min] | unknown statistic",
                "DumpTensors | tensors: [weight] | there is nothing to write",
                "DisableQuantizationGEMM | gemms: [fprop], tensors: [weight] | unknown key",
                "DisableQuantizationGEMM | gemms: [fwd] | unknown gemm 'fwd'",
                "DisableQuantizationGEMM | '' | neither gemms nor gemms_struct",
                "DisableQuantizationGEMM | gemms_struct: [{gemm: fprop, enabled: true}] | has no enabled",
                "FakeQuant | gemms: [fprop], tensors: [weight], quant_format: FP8 | unknown value 'FP8'",
                "FakeQuant | gemms: [fprop], tensors: [weight] | the key is missing",
                "FakeQuant | gemms: [fprop], tensors: [gradient], quant_format: FP8E4M3 | none of the tensors belongs"
                        + " to fprop",
                "FakeQuant | gemms: [fprop], tensors: [weight], quant_format: FP8E4M3, freq: 2 | unknown key",
                "PerTensorScaling | gemms: [wgrad], tensors: [wgrad] | unknown tensor 'wgrad'",
            })
    void what_transformer_engine_refuses_is_refused(String feature, String keys, String message) {
        assertTrue(error(feature, keys).contains(message), () -> error(feature, keys));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "debug: {one: {layers: {layer_types: [all]}}} | the key enabled is missing",
                "debug: {one: {enabled: true, layers: {}, transformer_engine: {DisableQuantizationLayer: {enabled:"
                        + " true}}}} | no layers are selected",
                "debug: {one: {enabled: true, layers: {layer_types: [all]}}} | has no features",
                "debug: {te_logs: true} | unknown key",
                "debug: gone.yaml | cannot be read",
                "debug: {one: {enabled: true, layers: {layer_numbers: [5-2]}, transformer_engine:"
                        + " {DisableQuantizationLayer: {enabled: true}}}} | are no numbers",
                "debug: {one: {enabled: true, layers: {layer_name_regex_pattern: '('}, transformer_engine:"
                        + " {DisableQuantizationLayer: {enabled: true}}}} | not a regular expression",
            })
    void sections_that_say_nothing_are_refused(String debug, String message) {
        String found =
                assertThrows(InvalidOptionException.class, () -> read(debug)).toString();
        assertTrue(found.contains(message), found);
    }

    @Test
    void a_gate_opens_at_multiples_within_its_ranges_and_at_their_ends() {
        StepGate gate = new StepGate(5, List.of(new StepGate.Range(0, 10), new StepGate.Range(21, 30)));
        assertEquals(
                List.of(0L, 5L, 10L, 25L, 30L),
                LongStream.rangeClosed(0, 40).filter(gate::opens).boxed().toList());
    }

    /** {@code docs/debug.md}, whose examples are read and whose features are all there are. */
    @Test
    void the_page_names_every_feature_and_its_examples_can_be_read() throws IOException {
        String page = Files.readString(Path.of(System.getProperty("octet.testdata"), "../docs/debug.md"));
        String[] blocks = page.split("```yaml\n", -1);
        assertEquals(3, blocks.length);
        assertEquals("debug: te_debug.yaml\n", blocks[1].split("```", -1)[0]);
        DebugSettings settings = read(blocks[2].split("```", -1)[0]);
        assertTrue(settings.logs());
        assertEquals(
                List.of("attention", "head"),
                settings.sections().stream().map(DebugSection::name).toList());
        assertEquals(5, settings.sections().getFirst().features().size());
        Set<String> named = new TreeSet<>();
        page.lines()
                .filter(l -> l.startsWith("| `Log")
                        || l.startsWith("| `D")
                        || l.startsWith("| `F")
                        || l.startsWith("| `Per"))
                .forEach(l -> Pattern.compile("`((Log|Dump|Fake|Per|Disable)\\w+)`")
                        .matcher(l)
                        .results()
                        .forEach(m -> named.add(m.group(1))));
        assertEquals(new TreeSet<>(DebugFeatures.READERS.keySet()), named);
        for (String name : TensorStatistic.OfAll.byLabel().keySet()) {
            assertTrue(page.contains("`" + name + "`"), name);
        }
        for (CastStatistic.Measure measure : CastStatistic.Measure.values()) {
            assertTrue(page.contains("`" + measure.label() + "`"), measure.label());
        }
    }

    @Test
    void every_statistic_has_the_name_of_transformer_engine() {
        assertEquals(
                List.of(
                        "underflows%",
                        "underflows%_columnwise",
                        "overflows%",
                        "scale_inv_min",
                        "scale_inv_min_columnwise",
                        "scale_inv_max",
                        "scale_inv_max_columnwise",
                        "mse",
                        "mse_columnwise"),
                CastStatistic.byLabel().keySet().stream().limit(9).toList());
        assertEquals(
                Arrays.asList(
                        "fp8_delayed_scaling_underflows%",
                        "fp8_delayed_scaling_overflows%",
                        "fp8_delayed_scaling_scale_inv_min",
                        "fp8_delayed_scaling_scale_inv_max",
                        "fp8_delayed_scaling_mse"),
                CastStatistic.byLabel().keySet().stream()
                        .filter(n -> n.contains("delayed"))
                        .toList());
    }
}
