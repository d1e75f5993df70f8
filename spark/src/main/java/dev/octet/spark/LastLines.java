package dev.octet.spark;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;

/** Passes bytes on, and keeps the last lines of them. */
final class LastLines extends OutputStream {
    private static final int LONGEST = 1 << 14;

    private final OutputStream to;
    private final int most;
    private final Deque<String> lines = new ArrayDeque<>();
    private final ByteArrayOutputStream line = new ByteArrayOutputStream();

    LastLines(OutputStream to, int most) {
        this.to = to;
        this.most = most;
    }

    @Override
    public synchronized void write(int b) throws IOException {
        write(new byte[] {(byte) b}, 0, 1);
    }

    @Override
    public synchronized void write(byte[] bytes, int offset, int count) throws IOException {
        to.write(bytes, offset, count);
        for (int i = offset; i < offset + count; i++) {
            if (bytes[i] == '\n' || line.size() >= LONGEST) {
                end();
            }
            if (bytes[i] != '\n') {
                line.write(bytes[i]);
            }
        }
    }

    private void end() {
        lines.add(line.toString(StandardCharsets.UTF_8));
        line.reset();
        if (lines.size() > most) {
            lines.remove();
        }
    }

    @Override
    public void flush() throws IOException {
        to.flush();
    }

    /** The last lines, in their order. */
    synchronized List<String> lines() {
        if (line.size() > 0) {
            end();
        }
        return new ArrayList<>(lines);
    }
}
