package dev.octet.trainer.hook;

import dev.octet.trainer.tensorboard.EventFile;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Clock;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Writes scalars of each step and evaluation to event files, for {@code tensorboard --logdir RUN}. */
public final class TensorBoard implements TrainingHook {
    private final Path folder;
    private @Nullable EventFile file;
    private @Nullable Fp8Report fp8;

    /** @param folder folder of the event files */
    public TensorBoard(Path folder) {
        this.folder = folder;
    }

    @Override
    public void runStarted(RunStart start, RunControl control) throws IOException {
        file = EventFile.create(folder, start.firstStep(), Clock.systemUTC());
    }

    @Override
    public void fp8Measured(Fp8Report report) {
        fp8 = report;
    }

    @Override
    public void afterStep(StepReport r) throws IOException {
        Map<String, Double> values = new LinkedHashMap<>();
        values.put("train/loss", r.loss());
        r.lossParts().forEach((part, loss) -> values.put("train/" + part + "_loss", loss));
        values.put("train/lr", r.lr());
        values.put("train/grad_norm", r.gradNorm());
        values.put("train/loss_scale", r.lossScale());
        values.put("time/tokens_per_second", r.tokens() / r.seconds());
        values.put("time/data_seconds", r.dataSeconds());
        if (fp8 != null) {
            values.put("fp8/clipped", fp8.clippedShare());
            values.put("fp8/underflowed", fp8.underflowedShare());
            values.put("fp8/oldest_scale", (double) fp8.oldestScale());
            fp8 = null;
        }
        write(r.step(), values);
    }

    @Override
    public void evaluated(EvaluationReport r) throws IOException {
        Map<String, Double> values = new LinkedHashMap<>();
        values.put("eval/loss", r.loss());
        r.lossParts().forEach((part, loss) -> values.put("eval/" + part + "_loss", loss));
        r.perplexity().ifPresent(p -> values.put("eval/perplexity", p));
        write(r.step(), values);
    }

    private void write(long step, Map<String, Double> values) throws IOException {
        if (file != null) {
            file.scalars(step, values);
        }
    }

    @Override
    public void runEnded(RunEnd end) throws IOException {
        if (file != null) {
            file.close();
        }
    }
}
