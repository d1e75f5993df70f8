package dev.octet.cli;

import dev.octet.pipeline.Merge;
import dev.octet.pipeline.MergeProof;
import dev.octet.pipeline.SampleSource;
import dev.octet.pipeline.Target;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import org.apache.commons.cli.Option;
import org.jspecify.annotations.Nullable;

/** {@code octet merge BASE ADAPTER... -o OUT}: adapters into the weights of a base, or out of them. */
final class MergeCommand implements Command {
    private static final int MAX_SAMPLES = 4096;
    private static final double MAX_GATE = 10;
    private static final int SHOWN = 24;

    private static final Option WEIGHTS =
            Flags.value("weights", "W,W,...", "a factor for each adapter, in their order (default: 1 each)");
    private static final PathOption LIKE = PathOption.read(
            "like",
            "BASE",
            "write each weight in the form it has in BASE, which must be the base itself (the default)");
    private static final Option RECIPE = ChoiceOption.of(
            "recipe",
            "NAME",
            CheckpointFlags.RECIPES.keySet(),
            "quantise the merged weights by another recipe: " + Recipes.names(Recipes.CHECKPOINT)
                    + " (default: as the base has them)");
    private static final Option TARGET = ChoiceOption.of(
            "target",
            "NAME",
            CheckpointFlags.TARGETS.keySet(),
            "with --recipe, the layout: " + String.join(", ", CheckpointFlags.TARGETS.keySet())
                    + " (default: fp8 for fp8-block, else compressed-tensors)");
    private static final Option UNMERGE =
            Flags.flag("unmerge", "take the adapters out of a merged model: the base within rounding");
    private static final PathOption DATA = PathOption.read(
            "data", "FILE", "samples for the proof: .jsonl ({\"text\": ...}) or .npz (default: random inputs)");
    private static final Option SAMPLES =
            Flags.value("samples", "N", "samples for the proof (default: " + Merge.Proof.SAMPLES + ")");
    private static final Option GATE = Flags.value(
            "gate",
            "X",
            "exit with 1 and write nothing when the outputs differ by more than X times their norm (default: 0.5 with"
                    + " four-bit weights, 0.15 with eight bits, 0.03 with BF16 or F16, else 0.0001)");
    private static final Option NO_PROOF = Flags.flag(
            "no-proof", "write without running both models, which takes memory for both and for their activations");

    @Override
    public String name() {
        return "merge";
    }

    @Override
    public String summary() {
        return "Merge adapters into a base of any layout and prove what is left of them.";
    }

    @Override
    public List<String> operands() {
        return List.of("BASE", "ADAPTER");
    }

    @Override
    public boolean takesMore() {
        return true;
    }

    @Override
    public List<Option> options() {
        return List.of(
                Flags.OUTPUT,
                WEIGHTS,
                LIKE,
                RECIPE,
                TARGET,
                CheckpointFlags.SCALE_FORMAT,
                CheckpointFlags.SCALE_TYPE,
                UNMERGE,
                DATA,
                DataFlags.TOKENIZER,
                SAMPLES,
                GATE,
                NO_PROOF,
                Flags.THREADS,
                Flags.FORCE,
                Flags.DRY_RUN);
    }

    @Override
    public List<String> examples() {
        return List.of(
                "octet merge Qwen3-8B-FP8 my-adapter -o Qwen3-8B-FP8-mine",
                "octet merge llama style facts -o llama-both --weights 0.7,0.3",
                "octet merge llama my-adapter -o llama-nvfp4 --recipe nvfp4 --data eval.jsonl",
                "octet merge llama-mine my-adapter -o llama --unmerge");
    }

    @Override
    public ExitCode run(Arguments arguments, Screen screen) throws IOException {
        Merge.Request request = request(arguments);
        arguments.requireInputs();
        try (Progress progress = arguments.progress(screen)) {
            Merge.Result result = Merge.run(request, arguments.job(progress));
            progress.end();
            screen.answer(arguments, result, () -> page(result));
            return result.passed() ? ExitCode.OK : ExitCode.CHECK_FAILED;
        }
    }

    private static Merge.Request request(Arguments arguments) {
        Path base = arguments.operand(0);
        List<Path> adapters = new ArrayList<>();
        for (int i = 1; i < arguments.operands(); i++) {
            adapters.add(arguments.operand(i));
        }
        Merge.Request request = Merge.Request.of(base, adapters, arguments.requiredPath(Flags.OUTPUT))
                .withWeights(weights(arguments));
        Optional<Path> like = arguments.path(LIKE);
        if (like.isPresent()) {
            arguments.refuse(List.of(RECIPE, TARGET), "and --like name two forms", "give one of them");
            if (!like.get()
                    .toAbsolutePath()
                    .normalize()
                    .equals(base.toAbsolutePath().normalize())) {
                throw arguments.usage(
                        "--like '" + like.get() + "' is not the base",
                        "give --recipe and --target for another form than the base's");
            }
        }
        if (arguments.has(RECIPE)) {
            request = request.withForm(form(arguments));
        } else {
            arguments.refuse(
                    List.of(TARGET, CheckpointFlags.SCALE_FORMAT, CheckpointFlags.SCALE_TYPE),
                    "goes with --recipe",
                    "add --recipe, or leave it out to keep the base's own form");
        }
        if (arguments.has(UNMERGE)) {
            request = request.unmerging();
        }
        return request.withProof(proof(arguments));
    }

    private static Merge.Form form(Arguments arguments) {
        Recipe recipe = arguments.choice(
                RECIPE,
                CheckpointFlags.RECIPES,
                CheckpointFlags.RECIPES.values().iterator().next());
        Target.Checkpoint target = arguments.choice(TARGET, CheckpointFlags.TARGETS, Target.usual(recipe));
        return new Merge.Form(recipe, target, CheckpointFlags.layoutOptions(arguments));
    }

    private static List<Double> weights(Arguments arguments) {
        List<Double> weights = new ArrayList<>();
        for (String text : arguments.text(WEIGHTS).map(t -> t.split(",", -1)).orElse(new String[0])) {
            double weight;
            try {
                weight = Double.parseDouble(text.strip());
            } catch (NumberFormatException e) {
                weight = Double.NaN;
            }
            if (!Double.isFinite(weight)) {
                throw arguments.usage(
                        "--weights needs numbers, got '" + text + "'", "one for each adapter, for example 0.7,0.3");
            }
            weights.add(weight);
        }
        return weights;
    }

    private static Optional<Merge.Proof> proof(Arguments arguments) {
        if (arguments.has(NO_PROOF)) {
            arguments.refuse(List.of(DATA, SAMPLES, GATE), "and --no-proof contradict each other", "give one of them");
            return Optional.empty();
        }
        if (!arguments.has(DATA)) {
            arguments.refuse(List.of(DataFlags.TOKENIZER), "goes with --data", "add --data, or leave it out");
        }
        Merge.Proof proof = new Merge.Proof(
                arguments.path(DATA).map(file -> samples(arguments, file)),
                arguments.integer(SAMPLES, Merge.Proof.SAMPLES, 1, MAX_SAMPLES),
                arguments.number(GATE, 0, MAX_GATE));
        return Optional.of(proof);
    }

    private static SampleSource samples(Arguments arguments, Path file) {
        SampleSource source = SampleSource.of(file);
        return arguments.path(DataFlags.TOKENIZER).map(source::withTokenizer).orElse(source);
    }

    /** What is printed of a merge. */
    static String page(Merge.Result answer) {
        Table table = new Table().row("base", answer.model());
        for (Merge.Adapter adapter : answer.adapters()) {
            table.row(
                    "adapter",
                    adapter.path() + ", " + adapter.type() + (adapter.weight() == 1 ? "" : " x " + adapter.weight()));
        }
        table.row("layout", answer.layout());
        String size = "  " + Quantity.bytes(answer.targetBytes());
        boolean written = !answer.dryRun() && answer.passed();
        table.row(answer.dryRun() ? "would write" : written ? "written" : "not written", answer.output() + size);
        table.row(
                answer.direction().equals("merge") ? "merged" : "taken out of",
                answer.weights().size() + " tensors");
        StringBuilder page = new StringBuilder(table.text(0));
        if (!answer.weights().isEmpty()) {
            page.append('\n').append(weights(answer));
        }
        answer.warnings()
                .forEach(w -> page.append("\nwarning: ").append(Printable.of(w)).append('\n'));
        if (!answer.notes().isEmpty()) {
            page.append('\n').append(TextStyle.heading("notes")).append('\n');
            answer.notes().stream()
                    .limit(SHOWN)
                    .forEach(n -> page.append("  ").append(Printable.of(n)).append('\n'));
            if (answer.notes().size() > SHOWN) {
                page.append("  and ").append(answer.notes().size() - SHOWN).append(" more (--json lists all)\n");
            }
        }
        MergeProof.@Nullable Result proof = answer.proof();
        if (proof != null) {
            page.append('\n').append(proof(proof));
        } else if (!answer.dryRun()) {
            page.append("\nnot proved by running: ")
                    .append(Printable.of(String.valueOf(answer.proofMissing())))
                    .append('\n');
        }
        return page.toString();
    }

    private static String weights(Merge.Result answer) {
        Table table = answer.dryRun()
                ? new Table().heading("tensor", "form")
                : new Table().heading("tensor", "form", "error", "delta kept");
        answer.weights().stream().limit(SHOWN).forEach(w -> {
            if (answer.dryRun()) {
                table.row(w.name(), w.form());
            } else {
                table.row(
                        w.name(),
                        w.form(),
                        number(w.error()),
                        w.isLost() ? Table.cell(number(w.kept()), Tone.CAREFUL) : number(w.kept()));
            }
        });
        String more = answer.weights().size() > SHOWN
                ? "  and " + (answer.weights().size() - SHOWN) + " more (--json lists all)\n"
                : "";
        return table.text(0) + more;
    }

    private static String number(@Nullable Double value) {
        return value == null ? "" : String.format(Locale.ROOT, "%.3f", value);
    }

    private static String proof(MergeProof.Result proof) {
        Table table = new Table()
                .heading("against base + adapters apart", "max error", "relative", "KL", "top-1", "effect kept");
        for (MergeProof.Gap gap : proof.gaps()) {
            table.row(
                    gap.output(),
                    String.format(Locale.ROOT, "%.3g", gap.maxAbs()),
                    String.format(Locale.ROOT, "%.3g", gap.relative()),
                    String.format(Locale.ROOT, "%.2g", gap.kl()),
                    String.format(Locale.ROOT, "%.1f %%", 100 * gap.topOne()),
                    String.format(Locale.ROOT, "%.3f", gap.kept()));
        }
        return table.text(0)
                + String.format(
                        Locale.ROOT,
                        "%nproof on %d samples (%s): %.3g, wanted at most %s: %s%n",
                        proof.samples(),
                        proof.data(),
                        proof.worst(),
                        proof.gate(),
                        GateFlags.passed(proof.passed()));
    }
}
