package dev.octet.pipeline;

import dev.octet.converter.CheckpointConverter;
import dev.octet.converter.checkpoint.AttentionScales;
import dev.octet.converter.checkpoint.CheckpointPlan;
import dev.octet.converter.checkpoint.ConversionRequest;
import dev.octet.converter.checkpoint.InputMoments;
import dev.octet.converter.checkpoint.Selection;
import dev.octet.converter.checkpoint.WeightRounding;
import dev.octet.quant.gptq.SecondMomentsFile;
import java.io.IOException;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * What quantize, dequantize or convert is to do with a checkpoint, with all open that it reads.
 *
 * @param goal what the checkpoint becomes
 * @param how the choices besides
 * @param moments open second moments; null where none are needed
 */
record CheckpointGoal(
        CheckpointConverter converter,
        ConversionRequest goal,
        CheckpointConverter.Request how,
        StaticScales scales,
        @Nullable SecondMomentsFile moments,
        TransformedCheckpoint transformed)
        implements AutoCloseable {
    static CheckpointGoal of(Quantize.CheckpointRequest request, Job job) throws IOException {
        CheckpointConverter converter = CheckpointConverter.open(request.model());
        SecondMomentsFile moments = null;
        TransformedCheckpoint transformed = TransformedCheckpoint.none();
        try {
            moments = Quantize.moments(request, job);
            transformed = TransformedCheckpoint.of(request, converter, job);
            StaticScales scales = StaticScales.of(request, converter, transformed.transform(), job);
            ConversionRequest goal = request.has(Quantize.Choice.FLOATS)
                    ? new ConversionRequest.Dequantize(converter.floatType(), false)
                    : new ConversionRequest.Quantize(
                            request.recipe(),
                            request.target().layout(),
                            request.layout().withStaticInputs(scales.inputs().isPresent()));
            CheckpointConverter.Request how = new CheckpointConverter.Request(
                            request.selection(),
                            scales.byModule(),
                            scales.attention(),
                            request.has(Quantize.Choice.ALLOW_NONFINITE),
                            request.has(Quantize.Choice.KEEP_SCALES),
                            request.has(Quantize.Choice.EXACT_ONLY))
                    .withRecipes(request.recipes())
                    .withMerged(transformed.weights(), transformed.fingerprint())
                    .withRounding(new WeightRounding(
                            request.rounding().search(),
                            request.rounding().method() == Quantize.Rounding.GPTQ,
                            request.rounding().gptq(),
                            new InputMoments(moments, transformed::changed)));
            return new CheckpointGoal(converter, goal, how, scales, moments, transformed);
        } catch (IOException | RuntimeException e) {
            new CheckpointGoal(
                            converter,
                            new ConversionRequest.Merge(),
                            CheckpointConverter.Request.all(),
                            StaticScales.NONE,
                            moments,
                            transformed)
                    .close();
            throw e;
        }
    }

    static CheckpointGoal of(Dequantize.Request request, Job job) throws IOException {
        job.requireCheckpoint(request.model());
        boolean keepScales = request.choices().contains(Dequantize.Choice.KEEP_SCALES);
        boolean exactOnly = request.choices().contains(Dequantize.Choice.EXACT_ONLY);
        return plain(
                CheckpointConverter.open(request.model()),
                new ConversionRequest.Dequantize(request.type(), keepScales),
                new CheckpointConverter.Request(
                        Selection.ALL_LINEARS, Map.of(), AttentionScales.NONE, false, keepScales, exactOnly));
    }

    static CheckpointGoal of(Convert.ToLayout request) throws IOException {
        boolean exactOnly = request.exactness() == Convert.Exactness.EXACT_ONLY;
        return plain(
                CheckpointConverter.open(request.model()),
                new ConversionRequest.Convert(request.target().layout(), request.layout(), request.recipe()),
                new CheckpointConverter.Request(
                        Selection.ALL_LINEARS, Map.of(), AttentionScales.NONE, false, false, exactOnly));
    }

    static CheckpointGoal of(Convert.ToSafetensors request, Job job) throws IOException {
        CheckpointConverter converter = CheckpointConverter.open(request.model());
        if (converter.checkpoint().isSafetensors()) {
            converter.close();
            throw job.invalid(
                    "'" + request.model() + "' is a checkpoint in safetensors already",
                    "give an .onnx or .gguf file, or a checkpoint of torch, DeepSpeed or Megatron");
        }
        return plain(converter, new ConversionRequest.Copy(), CheckpointConverter.Request.all());
    }

    private static CheckpointGoal plain(
            CheckpointConverter converter, ConversionRequest goal, CheckpointConverter.Request how) {
        return new CheckpointGoal(converter, goal, how, StaticScales.NONE, null, TransformedCheckpoint.none());
    }

    /** Decides what each tensor becomes. */
    CheckpointPlan plan(Job job) throws IOException {
        return converter.plan(goal, how, job.streaming("looking for NaN and infinity"));
    }

    /** What the work is called while it goes on. */
    String task() {
        return switch (goal) {
            case ConversionRequest.Quantize _ -> "quantising";
            case ConversionRequest.Dequantize _ -> "dequantising";
            case ConversionRequest.Convert _ -> "converting";
            case ConversionRequest.Merge _ -> "merging";
            case ConversionRequest.Copy _ -> "copying";
        };
    }

    @Override
    public void close() throws IOException {
        try (converter;
                moments) {
            transformed.close();
        }
    }
}
