package dev.octet.cli;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.FloatName;
import dev.octet.pipeline.CheckpointOutcome;
import dev.octet.pipeline.Dequantize;
import java.io.IOException;
import java.util.List;
import org.apache.commons.cli.Option;

/** {@code octet dequantize MODEL -o OUT}: any quantised checkpoint back to floats. */
final class DequantizeCommand implements Command {
    private static final Option DTYPE =
            Flags.value("dtype", "fp32|bf16|fp16", "number type of the dequantised weights (default: bf16)");
    private static final Option KEEP_SCALES = Flags.flag(
            "keep-scales",
            "keep the scales in the model's folder, so that 'octet quantize --keep-scales' gives the same codes again");

    @Override
    public String name() {
        return "dequantize";
    }

    @Override
    public String summary() {
        return "Turn a quantised checkpoint back into floats: bf16, fp16 or fp32.";
    }

    @Override
    public List<String> operands() {
        return List.of("MODEL");
    }

    @Override
    public List<Option> options() {
        return List.of(
                Flags.OUTPUT,
                DTYPE,
                KEEP_SCALES,
                CheckpointFlags.EXACT_ONLY,
                Flags.THREADS,
                Flags.FORCE,
                Flags.DRY_RUN);
    }

    @Override
    public List<String> examples() {
        return List.of(
                "octet dequantize DeepSeek-V3 -o DeepSeek-V3-bf16 --dtype bf16",
                "octet dequantize llama-mxfp8 -o llama-bf16 --keep-scales --exact-only");
    }

    @Override
    public ExitCode run(Arguments arguments, Screen screen) throws IOException {
        Dequantize.Request request = Dequantize.Request.of(arguments.operand(0), arguments.requiredPath(Flags.OUTPUT))
                .withType(arguments.choice(DTYPE, FloatName.types(), DType.BF16));
        if (arguments.has(KEEP_SCALES)) {
            request = request.with(Dequantize.Choice.KEEP_SCALES);
        }
        if (arguments.has(CheckpointFlags.EXACT_ONLY)) {
            request = request.with(Dequantize.Choice.EXACT_ONLY);
        }
        arguments.requireInputs();
        try (Progress progress = arguments.progress(screen)) {
            CheckpointOutcome outcome = Dequantize.run(request, arguments.job(progress));
            progress.end();
            new CheckpointPage(outcome).print(arguments, screen);
        }
        return ExitCode.OK;
    }
}
