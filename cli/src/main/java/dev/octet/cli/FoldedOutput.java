package dev.octet.cli;

import java.io.ByteArrayOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/** Breaks lines that are too long for a terminal on their way to it: those of pages that were not set for its width. */
final class FoldedOutput extends OutputStream {
    private final PrintStream out;
    private final TextStyle style;
    private final ByteArrayOutputStream line = new ByteArrayOutputStream();

    private FoldedOutput(PrintStream out, TextStyle style) {
        this.out = out;
        this.style = style;
    }

    /** A stream of UTF-8 to {@code out}; closing it does not close {@code out}. */
    static PrintStream to(PrintStream out, TextStyle style) {
        return new PrintStream(new FoldedOutput(out, style), true, StandardCharsets.UTF_8);
    }

    @Override
    public void write(int b) {
        line.write(b);
        if (b == '\n') {
            pass();
        }
    }

    @Override
    public void write(byte[] bytes, int offset, int length) {
        for (int i = offset; i < offset + length; i++) {
            write(bytes[i]);
        }
    }

    private void pass() {
        out.print(style.fold(line.toString(StandardCharsets.UTF_8)));
        line.reset();
    }

    /** Whole lines are passed on; one that is not finished waits, since only the whole one can be broken. */
    @Override
    public void flush() {
        out.flush();
    }

    @Override
    public void close() {
        pass();
        out.flush();
    }
}
