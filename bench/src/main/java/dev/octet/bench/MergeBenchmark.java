package dev.octet.bench;

import static java.util.Objects.requireNonNull;

import dev.octet.formats.error.OctetException;
import dev.octet.formats.peft.PeftAdapter;
import dev.octet.formats.tensor.Tensor;
import dev.octet.pipeline.DeviceName;
import dev.octet.pipeline.Export;
import dev.octet.pipeline.Job;
import dev.octet.pipeline.Merge;
import dev.octet.pipeline.Quantize;
import dev.octet.pipeline.Target;
import dev.octet.pipeline.Train;
import dev.octet.pipeline.TrainingJob;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import dev.octet.trainer.config.TrainingConfig;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;

/**
 * What merging keeps of a gain: a small model is trained on a text, quantised, and fine-tuned by LoRA on the same text, once as usual and once aware
 * of the merge. Losses on held-out text: of the quantised base, of base and adapter apart, of the plain merge, of the merge that training was
 * aware of. Arguments: MODEL (a Hugging Face folder), TEXTS (a folder with train.jsonl and eval.jsonl), RESULT (a text file), STEPS.
 */
public final class MergeBenchmark {
    private static final int PRETRAINING = 300;
    private static final List<String> RECIPES = List.of("fp8-dynamic", "fp8", "fp8-block", "mxfp8", "nvfp4", "int8");

    private final Path model;
    private final Path texts;
    private final Path work;
    private final int steps;
    private final StringBuilder out = new StringBuilder();

    private MergeBenchmark(Path model, Path texts, Path work, int steps) {
        this.model = model;
        this.texts = texts;
        this.work = work;
        this.steps = steps;
    }

    /** Runs the benchmark. */
    public static void main(String[] args) throws IOException {
        Path work = Files.createTempDirectory("merge");
        MergeBenchmark benchmark =
                new MergeBenchmark(Path.of(args[0]), Path.of(args[1]), work, Integer.parseInt(args[3]));
        benchmark.run();
        Files.writeString(Path.of(args[2]), benchmark.out);
    }

    @SuppressWarnings("AnnotateFormatMethod") // its annotation is in a library that is not used here
    private void line(String format, Object... values) {
        String text = String.format(Locale.ROOT, format, values);
        System.out.println(text);
        out.append(text).append('\n');
    }

    private Path config(String name, int count, double rate, String adapter) throws IOException {
        return Files.writeString(work.resolve(name + ".yaml"), """
            data: {train: %s, eval: %s, pack: true, sequence: 64}
            loss: {type: causal-lm}
            batch_size: 8
            steps: %d
            seed: 3
            optimizer: {type: adamw, lr: %s}
            precision: {mode: fp32}
            %s
            """.formatted(
                        texts.resolve("train.jsonl").toAbsolutePath(),
                        texts.resolve("eval.jsonl").toAbsolutePath(),
                        count,
                        rate,
                        adapter));
    }

    private void run() throws IOException {
        Path run = work.resolve("run");
        Train.run(Train.Request.of(model, config("first", PRETRAINING, 2e-3, ""), run), Job.defaults());
        Path trained = work.resolve("trained");
        Export.run(Export.Request.of(run, trained, Target.Floats.HUGGINGFACE), Job.defaults());
        line(
                "%-12s %8s %8s %8s %8s %8s   %s",
                "base", "loss", "adapter", "plain", "aware", "aware*", "gain kept: plain, aware");
        for (String name : RECIPES) {
            try {
                recipe(name, trained);
            } catch (OctetException e) {
                line("%-12s %s", name, e.what());
            }
        }
        line("");
        line(
                "loss: the quantised base; adapter: LoRA next to it; plain: that adapter merged; aware: what training"
                        + " with merge_aware saw; aware*: its merged file. %d steps of LoRA r 8 on all Linears over %s,"
                        + " trained for %d steps before; held-out text of the same book.",
                steps, model.getFileName(), PRETRAINING);
    }

    private void recipe(String name, Path trained) throws IOException {
        Recipe recipe = requireNonNull(Recipes.byName(Recipes.CHECKPOINT).get(name));
        Path base = work.resolve(name);
        Quantize.run(Quantize.CheckpointRequest.of(trained, base, recipe), Job.defaults());
        double before = loss(base);
        Path plain = work.resolve(name + "-plain");
        Path aware = work.resolve(name + "-aware");
        double apart = adapter(base, plain, "");
        double seen = adapter(base, aware, ", merge_aware: true");
        double merged = loss(merge(base, plain));
        double mergedAware = loss(merge(base, aware));
        line(
                "%-12s %8.4f %8.4f %8.4f %8.4f %8.4f   %.0f %%, %.0f %%",
                name,
                before,
                apart,
                merged,
                seen,
                mergedAware,
                100 * (before - merged) / (before - apart),
                100 * (before - mergedAware) / (before - apart));
    }

    private double loss(Path checkpoint) throws IOException {
        try (TrainingJob job = TrainingJob.open(
                checkpoint, TrainingConfig.read(config("eval", 1, 1e-9, "")), DeviceName.CPU, Job.defaults())) {
            return job.trainer().evaluate().total();
        }
    }

    /** Trains an adapter into a PEFT folder; its loss as the trainer computes it. */
    private double adapter(Path base, Path folder, String more) throws IOException {
        Path config =
                config("lora", steps, 5e-4, "adapter: {r: 8, lora_alpha: 16, target_modules: all-linear" + more + "}");
        try (TrainingJob job = TrainingJob.open(base, config);
                Arena arena = Arena.ofShared()) {
            for (int step = 1; step <= steps; step++) {
                job.trainer().step(step);
            }
            Map<String, Tensor> factors = new LinkedHashMap<>();
            job.trainer().parameters(arena).forEach((key, tensor) -> {
                if (key.contains(".lora_")) {
                    factors.put(key, tensor);
                }
            });
            PeftAdapter.write(folder, job.config().adapter().orElseThrow().config(), factors);
            return job.trainer().evaluate().total();
        }
    }

    private Path merge(Path base, Path adapter) throws IOException {
        Path merged = work.resolve(adapter.getFileName() + "-merged");
        Merge.run(Merge.Request.of(base, List.of(adapter), merged).withProof(Optional.empty()), Job.defaults());
        return merged;
    }
}
