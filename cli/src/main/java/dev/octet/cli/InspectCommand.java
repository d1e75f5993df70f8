package dev.octet.cli;

import com.fasterxml.jackson.annotation.JsonUnwrapped;
import dev.octet.converter.inspect.AdapterFacts;
import dev.octet.converter.inspect.GgufFacts;
import dev.octet.converter.inspect.Inspection;
import dev.octet.pipeline.Inspect;
import dev.octet.pipeline.StatisticsFacts;
import dev.octet.pipeline.run.RunSummary;
import dev.octet.trainer.autodiff.Ties;
import dev.octet.trainer.device.cuda.GpuReport;
import dev.octet.trainer.device.cuda.Gpus;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import org.apache.commons.cli.Option;
import org.jspecify.annotations.Nullable;

/** {@code octet inspect MODEL}: what is in a file or folder; {@code octet inspect --device}: what of CUDA there is. */
final class InspectCommand implements Command {
    private static final Option TENSORS =
            Flags.flag("tensors", "list all tensors with number type, shape, bytes and scales (--json always does)");
    private static final Option PARAMETERS =
            Flags.flag("parameters", "list the parameters that training may change (--json always does)");
    private static final Option DEVICE =
            Flags.flag("device", "instead of a file: the GPUs and what was found of CUDA, for train --device cuda");

    /** What {@code --json} prints: the facts, and what training may change. */
    record Answer(
            @JsonUnwrapped Inspection facts,
            @Nullable String architecture,
            @Nullable String withoutGraph,
            List<Inspect.ParameterFact> parameters,
            List<Ties.Tie> ties) {
        static Answer of(Inspect.Result r) {
            return new Answer(r.facts(), r.architecture(), r.withoutGraph(), r.parameters(), r.ties());
        }
    }

    @Override
    public String name() {
        return "inspect";
    }

    @Override
    public String summary() {
        return "Show what a model, an adapter, a training run or a file of statistics holds.";
    }

    @Override
    public List<String> operands() {
        return List.of("MODEL");
    }

    @Override
    public List<Option> options() {
        return List.of(TENSORS, PARAMETERS, DEVICE);
    }

    @Override
    public List<String> examples() {
        return List.of(
                "octet inspect model.onnx",
                "octet inspect --tensors Llama-3.1-8B-FP8",
                "octet inspect --parameters model.onnx",
                "octet inspect --json model.safetensors",
                "octet inspect llama-Q4_K_M.gguf",
                "octet inspect runs/lora/adapter",
                "octet inspect runs/first",
                "octet inspect --device");
    }

    @Override
    public void checkOperands(Arguments arguments) {
        if (!arguments.has(DEVICE)) {
            arguments.requireOperands();
        } else if (arguments.operands() > 0) {
            throw arguments.usage("--device takes no MODEL", "leave one of them out");
        }
    }

    @Override
    public ExitCode run(Arguments arguments, Screen screen) throws IOException {
        if (arguments.has(DEVICE)) {
            GpuReport report = Gpus.report();
            screen.out().print(arguments.has(Flags.JSON) ? GpuPage.json(report) : GpuPage.text(report));
            return ExitCode.OK;
        }
        Path path = arguments.operand(0);
        switch (Inspect.kind(path)) {
            case MODEL -> {
                Inspect.Result result = Inspect.run(path);
                screen.answer(arguments, Answer.of(result), () -> page(new ModelPage(result), arguments));
            }
            case ADAPTER -> {
                AdapterFacts facts = AdapterFacts.of(path);
                screen.answer(arguments, facts, () -> AdapterPage.of(facts, arguments.has(TENSORS)));
            }
            case TRAINING_RUN -> {
                RunSummary run = RunSummary.of(RunSummary.find(path).orElseThrow());
                screen.answer(arguments, run, () -> ArtifactPage.of(run));
            }
            case STATISTICS -> {
                StatisticsFacts facts = Inspect.statistics(path);
                screen.answer(arguments, facts, () -> ArtifactPage.of(facts, arguments.has(TENSORS)));
            }
            case GGUF -> {
                GgufFacts facts = Inspect.gguf(path);
                screen.answer(arguments, facts, () -> GgufPage.of(facts, arguments.has(TENSORS)));
            }
        }
        return ExitCode.OK;
    }

    private static String page(ModelPage page, Arguments arguments) {
        return page.text()
                + page.training(arguments.has(TENSORS))
                + page.trainable()
                + (arguments.has(PARAMETERS) ? page.parameters() : "")
                + (arguments.has(TENSORS) ? page.tensors() : "");
    }
}
