package dev.octet.converter.verify;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.verify.GoodCheckpoint.Kind;
import dev.octet.formats.tensor.DType;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Consumer;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Each rule of checkpoints against a checkpoint with its fault and nothing else wrong. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class RuleTest {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String K = "model.layers.0.self_attn.k_proj";
    private static final String O = "model.layers.0.self_attn.o_proj";
    private static final String DOWN = "model.layers.0.mlp.down_proj";
    private static final String EXPERT = "model.layers.1.block_sparse_moe.experts.1.w1";
    private static final String FIRST_FILE = "model-00001-of-00002.safetensors";
    private static final String INDEX = "model.safetensors.index.json";

    @TempDir
    Path folder;

    @TempDir
    Path originalFolder;

    /** Changes files after they were written. */
    interface Damage {
        void to(Path folder) throws IOException;
    }

    /**
     * A fault.
     *
     * @param plant changes the good checkpoint before it is written
     * @param damage changes its files
     * @param options from the usual ones, with the consumers of the kind
     * @param also rules that a checkpoint with this fault cannot but break, too
     */
    record Fault(
            String rule,
            Severity severity,
            Kind kind,
            Consumer<GoodCheckpoint> plant,
            Damage damage,
            UnaryOperator<VerifyOptions> options,
            Set<String> also) {
        Fault also(String... rules) {
            return new Fault(rule, severity, kind, plant, damage, options, Set.of(rules));
        }

        Fault with(UnaryOperator<VerifyOptions> changed) {
            return new Fault(rule, severity, kind, plant, damage, changed, also);
        }

        Fault readBy(dev.octet.converter.verify.Consumer... readers) {
            return with(o -> o.withConsumers(Set.of(readers)));
        }

        @Override
        public String toString() {
            return rule + " " + severity + " in " + kind;
        }
    }

    private static Fault error(String rule, Kind kind, Consumer<GoodCheckpoint> plant) {
        return fault(rule, Severity.ERROR, kind, plant);
    }

    private static Fault warning(String rule, Kind kind, Consumer<GoodCheckpoint> plant) {
        return fault(rule, Severity.WARNING, kind, plant);
    }

    private static Fault advice(String rule, Kind kind, Consumer<GoodCheckpoint> plant) {
        return fault(rule, Severity.ADVICE, kind, plant);
    }

    private static Fault fault(String rule, Severity severity, Kind kind, Consumer<GoodCheckpoint> plant) {
        return new Fault(rule, severity, kind, plant, f -> {}, o -> o, Set.of());
    }

    private static Fault damaged(String rule, Severity severity, Damage damage) {
        return new Fault(rule, severity, Kind.FP8_BLOCK, m -> {}, damage, o -> o, Set.of());
    }

    static List<Fault> faults() {
        List<Fault> faults = new ArrayList<>();
        faults.addAll(faultsOfFiles());
        faults.addAll(faultsOfScales());
        faults.addAll(faultsOfConfiguration());
        return faults;
    }

    private static List<Fault> faultsOfFiles() {
        return List.of(
                damaged("file-malformed", Severity.ERROR, f -> truncate(f.resolve(FIRST_FILE), 100)),
                damaged(
                        "file-malformed",
                        Severity.ERROR,
                        f -> Files.writeString(f.resolve("hf_quant_config.json"), "{")),
                damaged("duplicate-key", Severity.ERROR, RuleTest::doubleFirstName),
                damaged("shard-missing", Severity.ERROR, f -> Files.delete(f.resolve(FIRST_FILE))),
                damaged("tensor-missing", Severity.ERROR, f -> index(f, map -> map.put("gone.weight", FIRST_FILE))),
                damaged("tensor-missing", Severity.ERROR, f -> index(f, map -> map.put("lm_head.weight", FIRST_FILE))),
                damaged("tensor-stale", Severity.ERROR, f -> index(f, map -> map.remove("lm_head.weight"))),
                damaged("tensor-twice", Severity.ERROR, RuleTest::copyHead).also("tensor-missing", "total-size"),
                damaged(
                        "file-unlisted",
                        Severity.WARNING,
                        f -> Files.copy(f.resolve(FIRST_FILE), f.resolve("consolidated.safetensors"))),
                new Fault("file-unlisted", Severity.ERROR, Kind.PLAIN, m -> {}, RuleTest::twoModels, o -> o, Set.of()),
                damaged(
                        "total-size",
                        Severity.ADVICE,
                        f -> rewriteIndex(f, i -> ((ObjectNode) i.path("metadata")).put("total_size", 5))),
                warning("format-metadata", Kind.PLAIN, m -> m.metadata.clear()));
    }

    private static List<Fault> faultsOfScales() {
        return List.of(
                error("scale-missing", Kind.FP8_BLOCK, m -> m.remove(O + ".weight_scale_inv")),
                error("scale-missing", Kind.MODELOPT_NVFP4, m -> m.remove(EXPERT + ".weight_scale")),
                error("scale-orphan", Kind.FP8_BLOCK, m -> m.remove(O + ".weight")),
                error("scale-orphan", Kind.FP8_BLOCK, m -> m.zeros(O + ".weight", 256, 256))
                        .also("linear-not-quantized"),
                warning(
                        "scale-unknown",
                        Kind.CT_CHANNEL,
                        m -> m.put(O + ".act_scale", DType.F32, GoodCheckpoint.floats(1), 1)),
                error("scale-not-finite", Kind.FP8_BLOCK, m -> m.set(O + ".weight_scale_inv", 1, Float.NaN)),
                error(
                        "scale-not-finite",
                        Kind.MODELOPT_FP8,
                        m -> m.set(O + ".input_scale", 0, Float.POSITIVE_INFINITY)),
                error(
                        "scale-not-finite",
                        Kind.CT_MXFP8,
                        m -> m.tensor(DOWN + ".weight_scale").bytes().put(77, (byte) 0xFF)),
                error("scale-not-positive", Kind.FP8_BLOCK, m -> m.set(O + ".weight_scale_inv", 1, 0)),
                error("scale-not-positive", Kind.MODELOPT_FP8, m -> m.set(K + ".k_scale", 0, -0.5f)),
                warning(
                        "scale-not-positive",
                        Kind.CT_NVFP4,
                        m -> m.tensor(O + ".weight_scale").bytes().put(5, (byte) 0)),
                warning("scale-subnormal", Kind.FP8_BLOCK, m -> m.set(O + ".weight_scale_inv", 1, 1e-40f)),
                warning("scale-absurd", Kind.FP8_BLOCK, m -> m.set(O + ".weight_scale_inv", 1, 1e-30f)),
                error("fused-partial", Kind.CT_CHANNEL, m -> plain(m, K, 128, 256))
                        .also("linear-not-quantized"),
                warning("fused-scales", Kind.CT_TENSOR, m -> m.set(K + ".weight_scale", 0, 0.001f)),
                advice("fused-scales", Kind.CT_TENSOR, m -> m.set(K + ".input_scale", 0, 0.001f)),
                error("fused-scales", Kind.MODELOPT_NVFP4, m -> m.set(K + ".weight_scale_2", 0, 1e-5f)));
    }

    private static List<Fault> faultsOfConfiguration() {
        return List.of(
                error("config-missing", Kind.FP8_BLOCK, m -> m.config().remove("quantization_config")),
                error("config-missing", Kind.CT_CHANNEL, m -> m.config = null),
                warning(
                        "exclude-unmatched",
                        Kind.CT_CHANNEL,
                        m -> m.quantization().withArray("ignore").add("model.vision")),
                warning(
                        "exclude-unmatched",
                        Kind.CT_CHANNEL,
                        m -> m.quantization().withArray("ignore").add("re:.*vision.*")),
                error(
                        "exclude-contradicted",
                        Kind.CT_CHANNEL,
                        m -> m.quantization().withArray("ignore").add(O)),
                error("linear-not-quantized", Kind.CT_CHANNEL, m -> plain(m, O, 256, 256)),
                warning(
                        "linear-not-quantized",
                        Kind.CT_CHANNEL,
                        m -> m.quantization().withArray("ignore").remove(0)));
    }

    private static void plain(GoodCheckpoint model, String module, long... shape) {
        model.remove(module + ".weight_scale").zeros(module + ".weight", shape);
    }

    private static void truncate(Path file, int bytes) throws IOException {
        byte[] all = Files.readAllBytes(file);
        Files.write(file, Arrays.copyOf(all, all.length - bytes));
    }

    /** Gives the second tensor of the first file the name of the first, which has as many characters. */
    private static void doubleFirstName(Path folder) throws IOException {
        Path file = folder.resolve(FIRST_FILE);
        String all = new String(Files.readAllBytes(file), StandardCharsets.ISO_8859_1);
        String changed =
                all.replace("\"model.layers.0.self_attn.v_proj.weight\"", "\"model.layers.0.self_attn.k_proj.weight\"");
        Files.write(file, changed.getBytes(StandardCharsets.ISO_8859_1));
    }

    private static void rewriteIndex(Path folder, Consumer<ObjectNode> change) throws IOException {
        Path file = folder.resolve(INDEX);
        ObjectNode index = (ObjectNode) JSON.readTree(file.toFile());
        change.accept(index);
        JSON.writeValue(file.toFile(), index);
    }

    private static void index(Path folder, Consumer<ObjectNode> change) throws IOException {
        rewriteIndex(folder, i -> change.accept((ObjectNode) i.path("weight_map")));
    }

    private static void copyHead(Path folder) throws IOException {
        GoodCheckpoint good = GoodCheckpoint.of(Kind.FP8_BLOCK);
        Map<String, GoodCheckpoint.Stored> first = new LinkedHashMap<>();
        good.tensors.forEach((name, tensor) -> {
            if (name.startsWith("model.layers.0.") || name.startsWith("lm_head")) {
                first.put(name, tensor);
            }
        });
        good.writeFile(folder.resolve(FIRST_FILE), first);
    }

    private static void twoModels(Path folder) throws IOException {
        Files.delete(folder.resolve(INDEX));
        Files.move(folder.resolve(FIRST_FILE), folder.resolve("model.safetensors"));
    }

    private Verification verify(Fault fault) throws IOException {
        GoodCheckpoint model = GoodCheckpoint.of(fault.kind);
        fault.plant.accept(model);
        model.write(folder);
        fault.damage.to(folder);
        VerifyOptions options = VerifyOptions.defaults().withConsumers(fault.kind.consumers());
        return Verifier.verify(folder, fault.options.apply(options));
    }

    @ParameterizedTest
    @MethodSource("faults")
    void a_planted_fault_is_found_and_told_as_what_it_is(Fault fault) throws IOException {
        Verification result = verify(fault);
        assertTrue(
                result.findings().stream().anyMatch(f -> f.rule().equals(fault.rule) && f.severity() == fault.severity),
                result.findings().toString());
        Set<String> others =
                result.findings().stream().map(Finding::rule).collect(Collectors.toCollection(TreeSet::new));
        others.remove(fault.rule);
        others.removeAll(fault.also);
        assertEquals(Set.of(), others, result.findings().toString());
    }

    @Test
    void every_rule_has_a_planted_fault() {
        Set<String> planted = faults().stream().map(Fault::rule).collect(Collectors.toCollection(TreeSet::new));
        Set<String> rules = Verifier.RULES.stream()
                .filter(r -> !(r instanceof GraphRule))
                .map(Rule::id)
                .collect(Collectors.toCollection(TreeSet::new));
        assertEquals(rules, planted);
    }

    @Test
    void the_words_of_every_rule_are_complete() {
        Set<String> ids = new TreeSet<>();
        for (Rule rule : Verifier.RULES) {
            assertTrue(ids.add(rule.id()), rule.id());
            assertTrue(rule.id().matches("[a-z0-9]+(-[a-z0-9]+)*"), rule.id());
            assertFalse(
                    rule.demand().isBlank()
                            || rule.fix().isBlank()
                            || rule.source().isBlank(),
                    rule.id());
        }
    }
}
