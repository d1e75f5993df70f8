package dev.octet.converter.verify;

import dev.octet.converter.compare.ModelDiff;
import dev.octet.formats.ModelFile;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.peft.PeftAdapter;
import dev.octet.quant.layout.StoredWeight;
import dev.octet.quant.work.Workers;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumSet;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * Checks models against what their consumers demand. One more rule is one more constant and its line here.
 *
 * <p>Rules do not look for what files cannot show:
 *
 * <ul>
 *   <li>whether a model answers sensibly in a runtime (vllm-project/vllm#39407): that takes running it, see {@code octet evaluate};
 *   <li>whether the names in a list of modules are those that a consumer gives its modules inside (vllm-project/vllm#21669): rules compare
 *       them with the names in the checkpoint;
 *   <li>whether scales in the right shape were reordered for a kernel (swizzled): that takes the original, see {@code weight-differs};
 *   <li>whether an input scale is that of an expert calibration never reached, once a tool has filled it in;
 *   <li>whether a static input or KV scale is that of the activation: neither weights nor the original have it;
 *   <li>whether the kernel of a device rounds as it should (microsoft/onnxruntime#16938): {@code weight-rounding} checks the stored codes
 *   only.
 * </ul>
 */
public final class Verifier {
    private static final List<CheckpointRule> CHECKPOINT_RULES = List.of(
            FileRules.MALFORMED,
            FileRules.DUPLICATE_KEY,
            FileRules.SHARD_MISSING,
            FileRules.TENSOR_MISSING,
            FileRules.TENSOR_STALE,
            FileRules.TENSOR_TWICE,
            FileRules.UNLISTED,
            FileRules.TOTAL_SIZE,
            FileRules.FORMAT_METADATA,
            FileRules.FILE_FORMAT,
            FileRules.TRAINING_STATE,
            FileRules.ORIGINAL_TENSORS,
            ConfigRules.MISSING,
            ConfigRules.DIVERGENCE,
            ConfigRules.QUANT_CONFIG_MISSING,
            MethodSupported.RULE,
            CompressedFormat.RULE,
            ConfigRules.UNKNOWN_KEYS,
            ConfigRules.GROUP_NAME,
            ConfigRules.ACTIVATION_SCHEME,
            ConfigRules.MODELOPT_KEYS,
            ConfigRules.BLOCK_SIZE,
            WeightTypeRules.FORMAT,
            WeightTypeRules.E5M2,
            WeightTypeRules.FNUZ,
            WeightTypeRules.MX_OR_FP8,
            ScaleRules.MISSING,
            ScaleRules.AMBIGUOUS,
            ScaleRules.ORPHAN,
            ScaleName.RULE,
            ScaleRules.UNKNOWN,
            ScaleShape.RULE,
            ScaleFormRules.ONE_BY_ONE,
            ScaleFormRules.ZERO_DIM,
            ScaleFormRules.TYPE,
            ScaleFormRules.E8M0_TYPE,
            ScaleValueRules.NOT_FINITE,
            ScaleValueRules.NOT_POSITIVE,
            ScaleValueRules.SUBNORMAL,
            ScaleValueRules.ABSURD,
            ScaleValueRules.NOT_POWER_OF_TWO,
            ScaleValueRules.DIRECTION,
            ScaleValueRules.GLOBAL_DIRECTION,
            InputScaleRules.MISSING,
            InputScaleRules.OF_EXPERTS,
            KvScaleRules.MISSING,
            KvScaleRules.ONE,
            KvScaleRules.SHAPE,
            KvScaleRules.QUERY_MISSING,
            KvScaleRules.SCHEME,
            KvScaleRules.GROUP,
            CoverageRules.EXCLUDE_UNMATCHED,
            CoverageRules.EXCLUDE_CONTRADICTED,
            CoverageRules.LINEAR_NOT_QUANTIZED,
            LinearUnstored.RULE,
            CoverageRules.LAYER_KIND,
            LayerSupported.RULE,
            CoverageRules.HEAD_QUANTIZED,
            CoverageRules.TIED_EMBEDDINGS,
            FusedRules.PARTIAL,
            FusedRules.SCALES,
            FusedRules.EXPERTS_PARTIAL,
            FusedRules.EXPERTS_FUSED,
            BlockRules.REMAINDER,
            BlockRules.COLUMNS,
            BlockRules.PACKED,
            TensorParallel.RULE,
            PlainValueRules.NOT_FINITE,
            PlainValueRules.DIFFERS);

    private static final List<WeightRule> WEIGHT_RULES = List.of(
            WeightValueRules.NAN,
            WeightValueRules.NEGATIVE_ZERO,
            WeightValueRules.MAGNITUDE,
            WeightValueRules.CONSTANT,
            WeightValueRules.ZERO_BLOCKS,
            WeightValueRules.SATURATED,
            WeightValueRules.UNDERUSED,
            OriginalWeightRules.DIRECTION,
            OriginalWeightRules.TRANSPOSED,
            OriginalWeightRules.DIFFERS,
            OriginalWeightRules.ROUNDING);

    private static final List<GraphRule> GRAPH_RULES = List.of(
            OnnxModelRules.VERSION,
            OnnxNodeRules.FUSION,
            OnnxNodeRules.RELU,
            OnnxScaleRules.TYPE,
            OnnxScaleRules.CONSTANT,
            OnnxScaleRules.VALUE,
            OnnxScaleRules.ACTIVATION_AXIS,
            OnnxTypeRules.QUANTIZED,
            OnnxTypeRules.FLOAT8_KIND,
            OnnxTypeRules.CAST,
            OnnxNodeRules.KERNEL,
            OnnxScaleRules.ZERO_POINT,
            OnnxCodeRules.ZERO_POINT_TYPE,
            OnnxCodeRules.AGREES,
            OnnxCodeRules.BIAS_SCALE,
            OnnxCodeRules.SIGNED_INPUT,
            OnnxWeightRules.ZERO_POINT,
            OnnxWeightRules.AXIS,
            OnnxIntegerRules.KIND,
            OnnxIntegerRules.OPERATOR,
            OnnxNodeRules.ATTENTION,
            OnnxModelRules.OCTET_OPERATORS,
            OnnxTypeRules.WEIGHT_NAN,
            OnnxWeightRules.RANGE,
            OnnxOriginalRules.DIFFERS,
            OnnxOriginalRules.ROUNDING,
            OnnxModelRules.SESSION);

    private static final List<AdapterRule> ADAPTER_RULES = List.of(
            AdapterConfigRules.METHOD,
            AdapterConfigRules.KEYS,
            AdapterConfigRules.DORA,
            AdapterConfigRules.MODULES_TO_SAVE,
            AdapterConfigRules.BIAS,
            AdapterConfigRules.RANK_LIMIT,
            AdapterConfigRules.PATTERNS,
            AdapterConfigRules.VARIANT,
            AdapterConfigRules.EMBEDDING_NAME,
            AdapterConfigRules.KEY_NAME,
            AdapterConfigRules.BASE_NAME,
            AdapterTensorRules.BASE,
            AdapterTensorRules.TARGET,
            AdapterTensorRules.MISSING,
            AdapterTensorRules.UNEXPECTED,
            AdapterTensorRules.SHAPE,
            AdapterTensorRules.RANK,
            AdapterTensorRules.NOT_FINITE,
            AdapterTensorRules.NO_EFFECT);

    /** Every rule, in the order of the documentation. */
    public static final List<Rule> RULES = allRules();

    /** Enough for all threads; the facts of this many weights are kept at once. */
    private static final int WEIGHTS_AT_A_TIME = 256;

    private Verifier() {}

    private static List<Rule> allRules() {
        List<Rule> all = new ArrayList<>(CHECKPOINT_RULES);
        all.addAll(WEIGHT_RULES);
        all.addAll(GRAPH_RULES);
        all.addAll(ADAPTER_RULES);
        return List.copyOf(all);
    }

    /**
     * Checks a model.
     *
     * @param path a checkpoint (a safetensors file, an index, a folder), an ONNX file, or the folder of an adapter
     * @throws dev.octet.formats.error.UnsupportedModelException when it is neither
     * @throws dev.octet.formats.error.MalformedModelException when nothing of it can be read
     * @throws dev.octet.formats.error.InvalidOptionException when none of the consumers reads this kind of model
     * @throws IOException when a file is not there or cannot be read
     */
    public static Verification verify(Path path, VerifyOptions options) throws IOException {
        return new Run(path, options).verify();
    }

    /**
     * Reads every {@code parts}-th weight of a checkpoint, where several processes share the work of {@code --deep}.
     *
     * @param part which, 0 to {@code parts - 1}
     * @throws dev.octet.formats.error.MalformedModelException when nothing of it can be read
     * @throws IOException when a file cannot be read
     */
    public static VerifiedPart part(Path path, VerifyOptions options, int part, int parts) throws IOException {
        return new Run(path, options).read(part, parts);
    }

    /**
     * The verification of a checkpoint whose weights others have read: what {@link #verify} returns for the same options.
     *
     * @param options {@link VerifyOptions#deep} among them
     * @param diff of the original and this model; empty without an original
     * @param parts all, in any order
     * @throws dev.octet.formats.error.MalformedModelException when nothing of it can be read
     * @throws IOException when a file cannot be read
     */
    public static Verification joined(
            Path path, VerifyOptions options, Optional<ModelDiff> diff, List<VerifiedPart> parts) throws IOException {
        return new Run(path, options).judge(VerifiedPart.all(parts), diff.orElse(null));
    }

    /** One run. */
    private static final class Run {
        private final Path path;
        private final VerifyOptions options;
        private final List<String> ran = new ArrayList<>();
        private final List<Verification.Skipped> skipped = new ArrayList<>();
        private final List<String> notes = new ArrayList<>();

        Run(Path path, VerifyOptions options) {
            this.path = path;
            this.options = options;
        }

        Verification verify() throws IOException {
            if (PeftAdapter.isAdapter(path)) {
                return adapter();
            }
            if (Checkpoint.isCheckpoint(path)) {
                return checkpoint();
            }
            try (ModelFile file = ModelFile.open(path)) {
                return graph(file.model()
                        .graph()
                        .orElseThrow(() -> new UnsupportedModelException(
                                "there is no graph in this model",
                                path.toString(),
                                "give a checkpoint or an ONNX file")));
            }
        }

        private Verification adapter() throws IOException {
            Set<Consumer> asked = asked(Consumer.OF_ADAPTERS, "an adapter");
            Findings findings = new Findings(asked);
            try (AdapterSubject subject = AdapterSubject.open(path, options)) {
                for (AdapterRule rule : ADAPTER_RULES) {
                    if (runs(rule, asked, subject.base().isPresent())) {
                        rule.check(subject, findings);
                    }
                }
                notes.add(subject.note());
                notes.removeIf(String::isEmpty);
                String method =
                        subject.config().type().name().toLowerCase(Locale.ROOT).replace('_', '-');
                return result("adapter", method, asked, List.of(), findings);
            }
        }

        private Verification graph(GraphModel model) throws IOException {
            Set<Consumer> asked = asked(Consumer.OF_GRAPHS, "an ONNX graph");
            Findings findings = new Findings(asked);
            GraphSubject subject = new GraphSubject(path, model);
            if (options.deep() && options.original().isPresent()) {
                subject = subject.against(options.original().get(), options.threads());
            }
            for (GraphRule rule : GRAPH_RULES) {
                if (runs(rule, asked)) {
                    rule.check(subject, findings);
                }
            }
            return result("graph", "onnx", asked, List.of(), findings);
        }

        /** Facts of some weights. */
        VerifiedPart read(int part, int parts) throws IOException {
            VerifiedPart read = new VerifiedPart();
            // scales are judged where the parts are joined
            try (CheckpointSubject subject = CheckpointSubject.open(path, options.withDeep(false))) {
                List<StoredTensor> plain = some(PlainValueRules.floats(subject), part, parts);
                inThreads(
                        plain.size(),
                        i -> read.add(plain.get(i).name(), PlainValueRules.notFinite(subject, plain.get(i))));
                List<StoredWeight> weights =
                        some(List.copyOf(subject.stored().weights().values()), part, parts);
                inThreads(weights.size(), i -> {
                    WeightFacts facts =
                            WeightWalk.walk(subject.checkpoint(), subject.stored(), weights.get(i), subject.original());
                    if (facts != null) {
                        read.add(facts);
                    }
                });
            }
            return read;
        }

        private static <T> List<T> some(List<T> all, int part, int parts) {
            return IntStream.range(0, all.size())
                    .filter(i -> i % parts == part)
                    .mapToObj(all::get)
                    .toList();
        }

        Verification judge(VerifiedPart read, @Nullable ModelDiff diff) throws IOException {
            try (CheckpointSubject subject = CheckpointSubject.open(path, options)) {
                subject.take(read, diff);
                return checkpoint(subject);
            }
        }

        private Verification checkpoint() throws IOException {
            try (CheckpointSubject subject = CheckpointSubject.open(path, options)) {
                return checkpoint(subject);
            }
        }

        private Verification checkpoint(CheckpointSubject subject) throws IOException {
            Set<Consumer> able = asked(Consumer.OF_CHECKPOINTS, "a safetensors checkpoint");
            Set<Consumer> asked = options.consumers().isEmpty() ? LayoutReaders.of(subject) : able;
            Findings findings = new Findings(asked);
            List<CheckpointRule> rules =
                    CHECKPOINT_RULES.stream().filter(r -> runs(r, asked)).toList();
            // those that read weights close files on their way, so nothing else may read meanwhile
            checkTogether(rules.stream().filter(r -> !r.deep()).toList(), subject, findings);
            for (CheckpointRule rule : rules) {
                if (rule.deep()) {
                    rule.check(subject, findings);
                }
            }
            weights(subject, asked, findings);
            if (subject.unreadScales() > 0) {
                notes.add(
                        subject.unreadScales() + " tensors of scales were not read for their size; --deep reads them");
            }
            if (options.consumers().isEmpty()) {
                notes.addAll(LayoutReaders.notes(subject, asked));
            }
            List<Integer> devices = ran.contains(TensorParallel.RULE.id()) ? TensorParallel.legal(subject) : List.of();
            return result("checkpoint", subject.stored().layout(), asked, devices, findings);
        }

        /** Several rules in parallel; their findings are in the order of the rules. */
        private void checkTogether(List<CheckpointRule> rules, CheckpointSubject subject, Findings findings)
                throws IOException {
            List<Findings> each =
                    rules.stream().map(r -> new Findings(findings.asked())).toList();
            inThreads(rules.size(), i -> rules.get(i).check(subject, each.get(i)));
            each.forEach(findings::addAll);
        }

        /** A numbered piece of work that may read files. */
        private interface Piece {
            void run(int index) throws IOException;
        }

        private void inThreads(int count, Piece piece) throws IOException {
            try {
                Workers.run(count, options.threads(), i -> {
                    try {
                        piece.run(i);
                    } catch (IOException e) {
                        throw new UncheckedIOException(e);
                    }
                });
            } catch (UncheckedIOException e) {
                throw e.getCause();
            }
        }

        /** One walk over all quantised weights, several in parallel; facts are judged in the order of the checkpoint. */
        private void weights(CheckpointSubject subject, Set<Consumer> asked, Findings findings) throws IOException {
            List<WeightRule> rules =
                    WEIGHT_RULES.stream().filter(r -> runs(r, asked)).toList();
            if (rules.isEmpty()) {
                return;
            }
            List<StoredWeight> weights = List.copyOf(subject.stored().weights().values());
            for (int from = 0; from < weights.size(); from += WEIGHTS_AT_A_TIME) {
                List<StoredWeight> some = weights.subList(from, Math.min(weights.size(), from + WEIGHTS_AT_A_TIME));
                for (@Nullable WeightFacts facts : walk(some, subject)) {
                    if (facts != null) {
                        for (WeightRule rule : rules) {
                            rule.check(facts, subject, findings);
                        }
                    }
                }
            }
        }

        private List<@Nullable WeightFacts> walk(List<StoredWeight> weights, CheckpointSubject subject)
                throws IOException {
            OriginalDiff diff = subject.originalDiff();
            VerifiedPart read = subject.read();
            List<@Nullable WeightFacts> facts = Collections.synchronizedList(
                    new ArrayList<@Nullable WeightFacts>(Collections.nCopies(weights.size(), null)));
            inThreads(weights.size(), i -> {
                StoredWeight weight = weights.get(i);
                boolean explain = diff == null || diff.isToExplain(weight);
                facts.set(
                        i,
                        read != null
                                ? read.facts(weight, explain)
                                : WeightWalk.walk(
                                        subject.checkpoint(),
                                        subject.stored(),
                                        weight,
                                        explain ? subject.original() : null));
            });
            return facts;
        }

        private Set<Consumer> asked(Set<Consumer> able, String kind) {
            Set<Consumer> asked = EnumSet.copyOf(able);
            if (!options.consumers().isEmpty()) {
                asked.retainAll(options.consumers());
            }
            if (asked.isEmpty()) {
                throw new InvalidOptionException(
                        "none of the consumers asked for reads " + kind,
                        path.toString(),
                        "one or more of " + able.stream().map(Consumer::text).collect(Collectors.joining(", ")));
            }
            return asked;
        }

        private boolean runs(Rule rule, Set<Consumer> asked) {
            return runs(rule, asked, options.original().isPresent());
        }

        private boolean runs(Rule rule, Set<Consumer> asked, boolean original) {
            String reason = "";
            if (rule.consumers().stream().noneMatch(asked::contains)) {
                reason = "none of its consumers was asked for";
            } else if (rule.deep() && !options.deep()) {
                reason = "reads weights, which takes --deep";
            } else if (rule.needsOriginal() && !original) {
                reason = "needs the original, given with --against";
            }
            if (reason.isEmpty()) {
                ran.add(rule.id());
                return true;
            }
            skipped.add(new Verification.Skipped(rule.id(), reason));
            return false;
        }

        private Verification result(
                String kind, String layout, Set<Consumer> asked, List<Integer> devices, Findings findings) {
            List<Finding> all = findings.sorted(RULES);
            return new Verification(
                    path.toString(),
                    kind,
                    layout,
                    asked.stream().map(Consumer::text).toList(),
                    devices,
                    all,
                    count(all, Severity.ERROR),
                    count(all, Severity.WARNING),
                    count(all, Severity.ADVICE),
                    ran,
                    skipped,
                    notes);
        }

        private static int count(List<Finding> findings, Severity severity) {
            return (int) findings.stream().filter(f -> f.severity() == severity).count();
        }
    }
}
