package dev.octet.converter.verify;

import dev.octet.formats.ModelFile;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.GraphModel;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * Checks models against what their consumers demand. One more rule is one more class and its line here.
 */
public final class Verifier {
    private static final List<CheckpointRule> CHECKPOINT_RULES = List.of(
            new FileMalformed(),
            new DuplicateKey(),
            new ShardMissing(),
            new TensorMissing(),
            new TensorStale(),
            new TensorTwice(),
            new FileUnlisted(),
            new TotalSize(),
            new FormatMetadata(),
            new ConfigMissing(),
            new ScaleMissing(),
            new ScaleOrphan(),
            new ScaleUnknown(),
            new ScaleNotFinite(),
            new ScaleNotPositive(),
            new ScaleSubnormal(),
            new ScaleAbsurd(),
            new FusedPartial(),
            new FusedScales(),
            new ExcludeUnmatched(),
            new ExcludeContradicted(),
            new LinearNotQuantized());

    private static final List<WeightRule> WEIGHT_RULES = List.of();

    private static final List<GraphRule> GRAPH_RULES = List.of();

    /** Every rule, in the order of the documentation. */
    public static final List<Rule> RULES = allRules();

    private Verifier() {}

    private static List<Rule> allRules() {
        List<Rule> all = new ArrayList<>(CHECKPOINT_RULES);
        all.addAll(WEIGHT_RULES);
        all.addAll(GRAPH_RULES);
        return List.copyOf(all);
    }

    /**
     * Checks a model.
     *
     * @param path a checkpoint (a safetensors file, an index, a folder) or an ONNX file
     * @throws dev.octet.formats.error.UnsupportedModelException when it is neither
     * @throws dev.octet.formats.error.MalformedModelException when nothing of it can be read
     * @throws dev.octet.formats.error.InvalidOptionException when none of the consumers reads this kind of model
     * @throws IOException when a file is not there or cannot be read
     */
    public static Verification verify(Path path, VerifyOptions options) throws IOException {
        return new Run(path, options).verify();
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

        private Verification graph(GraphModel model) {
            Set<Consumer> asked = asked(Consumer.OF_GRAPHS, "an ONNX graph");
            Findings findings = new Findings(asked);
            GraphSubject subject = new GraphSubject(model);
            for (GraphRule rule : GRAPH_RULES) {
                if (runs(rule, asked)) {
                    rule.check(subject, findings);
                }
            }
            return result("graph", "onnx", asked, findings);
        }

        private Verification checkpoint() throws IOException {
            Set<Consumer> asked = asked(Consumer.OF_CHECKPOINTS, "a safetensors checkpoint");
            Findings findings = new Findings(asked);
            try (CheckpointSubject subject = CheckpointSubject.open(path, options)) {
                for (CheckpointRule rule : CHECKPOINT_RULES) {
                    if (runs(rule, asked)) {
                        rule.check(subject, findings);
                    }
                }
                if (subject.unreadScales() > 0) {
                    notes.add(subject.unreadScales()
                            + " tensors of scales were not read for their size; --deep reads them");
                }
                return result("checkpoint", subject.stored().layout(), asked, findings);
            }
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
            String reason = "";
            if (rule.consumers().stream().noneMatch(asked::contains)) {
                reason = "none of its consumers was asked for";
            } else if (rule.deep() && !options.deep()) {
                reason = "reads weights, which takes --deep";
            } else if (rule.needsOriginal() && options.original().isEmpty()) {
                reason = "needs the original, given with --against";
            }
            if (reason.isEmpty()) {
                ran.add(rule.id());
                return true;
            }
            skipped.add(new Verification.Skipped(rule.id(), reason));
            return false;
        }

        private Verification result(String kind, String layout, Set<Consumer> asked, Findings findings) {
            List<Finding> all = findings.sorted(RULES);
            return new Verification(
                    path.toString(),
                    kind,
                    layout,
                    asked.stream().map(Consumer::text).toList(),
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
