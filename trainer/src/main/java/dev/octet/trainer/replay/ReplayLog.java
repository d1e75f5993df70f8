package dev.octet.trainer.replay;

import java.io.IOException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;

/** Finished replays, so that an examination that was stopped goes on where it was. */
public interface ReplayLog {
    /** The finished replay with a key. */
    Optional<Replay> find(String key);

    /**
     * Keeps a replay.
     *
     * @throws IOException when it cannot be written
     */
    void add(Replay replay) throws IOException;

    /**
     * A log as a file, which is read if it exists.
     *
     * @param excerpt what was replayed, {@link Excerpt#identity}: a log of another excerpt is begun anew
     * @throws IOException when the file cannot be read
     */
    static ReplayLog file(Path file, String excerpt) throws IOException {
        return new ReplayFile(file, excerpt);
    }

    /** A log in memory. */
    static ReplayLog inMemory() {
        Map<String, Replay> replays = new HashMap<>();
        return new ReplayLog() {
            @Override
            public Optional<Replay> find(String key) {
                return Optional.ofNullable(replays.get(key));
            }

            @Override
            public void add(Replay replay) {
                replays.put(replay.key(), replay);
            }
        };
    }
}
