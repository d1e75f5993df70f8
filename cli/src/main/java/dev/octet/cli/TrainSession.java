package dev.octet.cli;

import dev.octet.pipeline.Train;
import dev.octet.trainer.hook.Interruption;
import dev.octet.trainer.hook.RunEnd;
import dev.octet.trainer.hook.TrainingHook;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/** One training on the screen: its page, and its good end when the process is asked to end. */
final class TrainSession implements Train.Watcher, Ending.Work, AutoCloseable {
    private final Interruption interruption = new Interruption();
    private final CountDownLatch ended = new CountDownLatch(1);
    private final Function<Train.Setup, TrainPage> pages;
    private @Nullable TrainPage page;

    TrainSession(Function<Train.Setup, TrainPage> pages) {
        this.pages = pages;
    }

    @Override
    public List<TrainingHook> hooks(Train.Setup setup) {
        TrainPage shown = pages.apply(setup);
        page = shown;
        Ending.begin(this);
        return List.of(interruption, shown);
    }

    /** Shows how the run ended. */
    ExitCode end(RunEnd end) {
        if (page != null) {
            page.end(end);
        }
        return switch (end.reason()) {
            case COMPLETED, INTERRUPTED -> ExitCode.OK;
            case DIVERGED, NON_FINITE, FAILED -> ExitCode.CHECK_FAILED;
        };
    }

    /** A run that ends after the step that is being done, or at once when it has not begun. */
    @Override
    public String ask() {
        if (page != null) {
            page.endLine();
        }
        return interruption.ask() ? "the run ends after this step, with a checkpoint" : "";
    }

    @Override
    public void await() throws InterruptedException {
        ended.await();
    }

    /** Nothing more is to be waited for. */
    @Override
    public void close() {
        ended.countDown();
        Ending.end(this);
    }
}
