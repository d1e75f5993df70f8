package dev.octet.trainer.collective;

import dev.octet.formats.error.UnavailableException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/** One of the ranks that are threads. */
final class ThreadCollectives extends OrderedCollectives {
    private final ThreadBoard board;
    private final int rank;

    ThreadCollectives(ThreadBoard board, int rank) {
        this.board = board;
        this.rank = rank;
    }

    @Override
    public int rank() {
        return rank;
    }

    @Override
    public int size() {
        return board.size();
    }

    @Override
    public String engine() {
        return "threads";
    }

    @Override
    void exchange(Call call, MemorySegment[] out, MemorySegment[] in) {
        for (int r = 0; r < out.length; r++) {
            if (r != rank && out[r].byteSize() > 0) {
                board.post(rank, r, new ThreadBoard.Letter(call, out[r]));
            }
        }
        in[rank].copyFrom(out[rank]);
        for (int r = 0; r < in.length; r++) {
            if (r != rank && in[r].byteSize() > 0) {
                take(call, r, in[r]);
            }
        }
        for (int r = 0; r < out.length; r++) {
            if (r != rank && out[r].byteSize() > 0 && !board.awaitTaken(rank, r, call)) {
                throw late(call, r);
            }
        }
    }

    @Override
    void leave(MemorySegment data, int to, int channel) {
        MemorySegment copy = MemorySegment.ofArray(data.toArray(ValueLayout.JAVA_BYTE));
        board.post(new ThreadBoard.Box(rank, to, channel), copy);
    }

    @Override
    void collect(MemorySegment data, int from, int channel) {
        MemorySegment posted = board.await(new ThreadBoard.Box(from, rank, channel));
        if (posted == null) {
            throw late(Call.MESSAGE, from);
        }
        if (posted.byteSize() != data.byteSize()) {
            throw new IllegalStateException(
                    name() + " takes " + data.byteSize() + " bytes, rank " + from + " has posted " + posted.byteSize());
        }
        data.copyFrom(posted);
    }

    private void take(Call call, int from, MemorySegment to) {
        ThreadBoard.Letter letter = board.await(from, rank, call);
        if (letter == null) {
            throw late(call, from);
        }
        if (letter.call() != call || letter.data().byteSize() != to.byteSize()) {
            throw new IllegalStateException(name() + " is in " + call.text() + " with " + to.byteSize()
                    + " bytes, rank " + from + " in " + letter.call().text() + " with "
                    + letter.data().byteSize());
        }
        to.copyFrom(letter.data());
        board.taken(from, rank);
    }

    private UnavailableException late(Call call, int other) {
        return late(board.deadline(), "rank " + other, call);
    }

    @Override
    public void abandon(int exitCode) {
        board.fail(rank, new IllegalStateException("it was abandoned"));
    }

    @Override
    public void close() {
        board.end(rank);
    }
}
