package dev.octet.trainer.replay;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import dev.octet.formats.file.AtomicFile;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * A log of replays as a file of JSON lines: the first names the excerpt, each other is a replay. It is written whole or not at all. Lines
 * that are no replay are left out, and a log of another excerpt is begun anew: what is missing is only replayed again.
 */
final class ReplayFile implements ReplayLog {
    /** Longest file that is read. */
    static final long MAX_BYTES = 1L << 30;

    private static final System.Logger LOG = System.getLogger(ReplayFile.class.getName());
    private static final String SCHEMA = "octet/replays/1";
    private static final ObjectMapper MAPPER = JsonMapper.builder().build();

    private final Path file;
    private final String head;
    private final Map<String, Replay> replays = new LinkedHashMap<>();

    /** @param schema kind and version of the file */
    private record Head(String schema, String excerpt) {}

    ReplayFile(Path file, String excerpt) throws IOException {
        this.file = file;
        this.head = MAPPER.writeValueAsString(new Head(SCHEMA, excerpt));
        if (Files.exists(file) && Files.size(file) <= MAX_BYTES) {
            // what is not UTF-8 is not a replay, either
            List<String> lines = new String(Files.readAllBytes(file), StandardCharsets.UTF_8)
                    .lines()
                    .toList();
            if (!lines.isEmpty() && lines.getFirst().equals(head)) {
                lines.subList(1, lines.size()).forEach(this::read);
            }
        }
    }

    private void read(String line) {
        try {
            Optional.ofNullable(MAPPER.readValue(line, Replay.class)).ifPresent(r -> replays.put(r.key(), r));
        } catch (JsonProcessingException e) {
            LOG.log(System.Logger.Level.WARNING, file + " has a line that is no replay; it is run again", e);
        }
    }

    @Override
    public Optional<Replay> find(String key) {
        return Optional.ofNullable(replays.get(key));
    }

    @Override
    public void add(Replay replay) throws IOException {
        replays.put(replay.key(), replay);
        StringBuilder text = new StringBuilder(head).append('\n');
        for (Replay r : replays.values()) {
            text.append(MAPPER.writeValueAsString(r)).append('\n');
        }
        try (AtomicFile out = AtomicFile.create(file)) {
            out.write(ByteBuffer.wrap(text.toString().getBytes(StandardCharsets.UTF_8)));
            out.commit();
        }
    }
}
