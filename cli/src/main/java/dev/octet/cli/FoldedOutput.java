package dev.octet.cli;

import java.io.ByteArrayOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/** Breaks lines that are too long for a terminal on their way to it: those of pages that were not set for its width. */
final class FoldedOutput extends OutputStream {
    /** Begins a line that is for a program: of {@code --progress json}. */
    private static final String JSON = "{\"";

    private final PrintStream out;
    private final TextStyle style;
    private final ByteArrayOutputStream line = new ByteArrayOutputStream();

    private FoldedOutput(PrintStream out, TextStyle style) {
        this.out = out;
        this.style = style;
    }

    /** A stream of UTF-8 to {@code out}, or {@code out} itself where lines may be of any length. */
    static PrintStream to(PrintStream out, TextStyle style) {
        // without automatic flushing, which would pass on pieces of lines; whole ones are passed on anyway
        return style.isTerminal() ? new PrintStream(new FoldedOutput(out, style), false, StandardCharsets.UTF_8) : out;
    }

    @Override
    public void write(int b) {
        line.write(b);
        if (b == '\n') {
            String text = line.toString(StandardCharsets.UTF_8);
            int start = text.lastIndexOf('\r') + 1; // what comes before is rewritten in place
            out.print(text.startsWith(JSON) ? text : text.substring(0, start) + style.fold(text.substring(start)));
            line.reset();
        }
    }

    @Override
    public void write(byte[] bytes, int offset, int length) {
        for (int i = offset; i < offset + length; i++) {
            write(bytes[i]);
        }
    }

    /** Passes on a line that is not finished yet, as it is: one that is rewritten in place. */
    @Override
    public void flush() {
        out.print(line.toString(StandardCharsets.UTF_8));
        line.reset();
        out.flush();
    }
}
