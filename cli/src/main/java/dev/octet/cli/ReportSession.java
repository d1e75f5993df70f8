package dev.octet.cli;

import dev.octet.pipeline.Report;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

/** Runs that are followed on the screen: a line for each page, and a last page when the process is asked to end. */
final class ReportSession implements Report.Follower, Ending.Work, AutoCloseable {
    private static final int WIDEST = 72;

    private final CountDownLatch asked = new CountDownLatch(1);
    private final CountDownLatch ended = new CountDownLatch(1);
    private final long everySeconds;
    private final ProgressStyle style;
    private final LiveLine live;

    ReportSession(long everySeconds, Arguments arguments, Screen screen) {
        this.everySeconds = everySeconds;
        this.style = arguments.progressStyle(screen);
        this.live = new LiveLine(screen.err());
        Ending.begin(this);
    }

    @Override
    public void written(Report.Result result) {
        switch (style) {
            case BAR -> live.show(line(result));
            case PLAIN -> live.above(line(result));
            case JSON -> live.above(Json.line(result));
            case NONE -> {}
        }
    }

    /** Narrower than any terminal. */
    private static String line(Report.Result result) {
        String steps =
                result.runs().stream().map(r -> r.step() + " of " + r.steps()).collect(Collectors.joining(", "));
        String line = Printable.of("following: step " + steps);
        return line.length() < WIDEST ? line : line.substring(0, WIDEST);
    }

    @Override
    public boolean awaitNext() throws InterruptedException {
        return !asked.await(everySeconds, TimeUnit.SECONDS);
    }

    @Override
    public String ask() {
        asked.countDown();
        return "the page is written a last time";
    }

    @Override
    public void await() throws InterruptedException {
        ended.await();
    }

    /** Nothing more is to be waited for. */
    @Override
    public void close() {
        live.end();
        ended.countDown();
        Ending.end(this);
    }
}
