package dev.octet.cli;

import dev.octet.converter.verify.Consumer;
import dev.octet.pipeline.CheckpointOutcome;
import dev.octet.pipeline.Quantize;
import dev.octet.pipeline.SampleSource;
import dev.octet.pipeline.run.ShellWord;
import java.nio.file.Path;
import java.util.Optional;

/** What to do with a model that was quantised, as lines to copy. */
final class NextSteps {
    private NextSteps() {}

    /** Of a checkpoint for {@code consumer}: check it, serve it if it generates text. */
    static String of(CheckpointOutcome outcome, Consumer consumer) {
        String output = ShellWord.of(Path.of(outcome.output()));
        String check = "\ncheck: octet verify " + output + " --for " + consumer.text() + "\n";
        return outcome.generatesText() ? check + "serve: " + serve(output, consumer) + "\n" : check;
    }

    private static String serve(String output, Consumer consumer) {
        return switch (consumer) {
            case VLLM -> "vllm serve " + output;
            case SGLANG -> "python -m sglang.launch_server --model-path " + output;
            case TENSORRT_LLM -> "trtllm-serve " + output;
            case TRANSFORMERS -> "transformers chat " + output;
            case ONNXRUNTIME, TENSORRT, PEFT -> throw new IllegalArgumentException(consumer + " loads no checkpoints");
        };
    }

    /** Of a graph: compare it with the original, or build an engine of it. */
    static String of(Quantize.GraphRequest request) {
        String output = ShellWord.of(request.output());
        return switch (request.target().runtime()) {
            case ONNXRUNTIME ->
                "\ncheck: octet evaluate " + ShellWord.of(request.model()) + " " + output + " --data HELD-OUT"
                        + request.samples().map(NextSteps::ending).orElse(".jsonl")
                        + request.samples()
                                .flatMap(SampleSource::tokenizer)
                                .map(t -> " --tokenizer " + ShellWord.of(t))
                                .orElse("")
                        + "\n";
            case TENSORRT ->
                "\ncheck: octet verify " + output + " --for tensorrt\nbuild: trtexec --stronglyTyped --onnx=" + output
                        + "\n";
        };
    }

    private static String ending(SampleSource samples) {
        String name = Optional.ofNullable(samples.file().getFileName())
                .map(Path::toString)
                .orElse("");
        return name.endsWith(".npz") ? ".npz" : ".jsonl";
    }
}
