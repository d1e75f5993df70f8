package dev.octet.pipeline.doctor;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.file.NoSpaceException;
import dev.octet.formats.file.PartFile;
import dev.octet.trainer.replay.Difference;
import dev.octet.trainer.replay.Replay;
import dev.octet.trainer.replay.ReplayLog;
import java.io.IOException;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/**
 * Finished replays in a file, so that the same call goes on where an earlier one stopped.
 *
 * <p>JSON lines: the first names the run that they are of, by digests of model, configuration and data; each further one is a replay, under the
 * identity of its excerpt. A line that a killed process left unfinished is dropped.
 */
public final class ReplayJournal {
    /** Name of the file. */
    public static final String NAME = "journal.jsonl";

    private static final String SCHEMA = "octet/doctor-journal/1";
    private static final ObjectMapper JSON = new ObjectMapper();

    /** A replay of a model with many thousand parameters has a few megabytes. */
    private static final long MAX_BYTES = 2L << 30;

    private final Path file;
    private final Map<String, Replay> replays;

    private ReplayJournal(Path file, Map<String, Replay> replays) {
        this.file = file;
        this.replays = replays;
    }

    /**
     * Begins a journal, or goes on with the one that is in the folder.
     *
     * @param folder made where it is not there
     * @param identity of the run, by name
     * @param fresh whether to begin anew whatever is there
     * @throws InvalidOptionException when the journal there is of another run, or is none
     */
    public static ReplayJournal open(Path folder, Map<String, String> identity, boolean fresh) throws IOException {
        Files.createDirectories(folder);
        Path file = folder.resolve(NAME);
        ObjectNode head = JSON.createObjectNode().put("schema", SCHEMA);
        new TreeMap<>(identity).forEach(head::put);
        if (fresh || !Files.exists(file)) {
            replace(file, head + "\n");
            return new ReplayJournal(file, new HashMap<>());
        }
        String text = text(file);
        String whole = text.substring(0, text.lastIndexOf('\n') + 1);
        if (!whole.equals(text)) {
            replace(file, whole);
        }
        Map<String, Replay> replays = new HashMap<>();
        try {
            List<String> lines = whole.lines().toList();
            JsonNode before = lines.isEmpty() ? JSON.createObjectNode() : JSON.readTree(lines.getFirst());
            requireSame(before, head, file);
            for (String line : lines.subList(1, lines.size())) {
                JsonNode entry = JSON.readTree(line);
                Replay replay = replay(entry.path("replay"));
                replays.put(key(entry.path("excerpt").asText(), replay.key()), replay);
            }
        } catch (JsonProcessingException e) {
            throw unreadable(file, e);
        }
        return new ReplayJournal(file, replays);
    }

    private static String text(Path file) throws IOException {
        if (Files.size(file) > MAX_BYTES) {
            throw unreadable(file, new IOException("the file has more than " + MAX_BYTES + " bytes"));
        }
        try {
            return Files.readString(file);
        } catch (CharacterCodingException e) {
            throw unreadable(file, e);
        }
    }

    private static InvalidOptionException unreadable(Path file, IOException cause) {
        return new InvalidOptionException(
                "the journal of an earlier examination cannot be read", file.toString(), "start over with --force", cause);
    }

    private static void requireSame(JsonNode before, ObjectNode now, Path file) {
        for (Map.Entry<String, JsonNode> entry : now.properties()) {
            if (!entry.getValue().equals(before.path(entry.getKey()))) {
                throw new InvalidOptionException(
                        "the journal holds replays of another run: " + entry.getKey() + " was "
                                + before.path(entry.getKey()).asText("absent") + " and is "
                                + entry.getValue().asText(),
                        file.toString(),
                        "start over with --force, or choose another folder with --output");
            }
        }
    }

    private static void replace(Path file, String text) throws IOException {
        Path part = PartFile.partOf(file);
        try {
            Files.writeString(part, text);
        } catch (IOException e) {
            throw NoSpaceException.of(file, text.length(), e);
        }
        Files.move(part, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    }

    /** The replays of one excerpt. */
    public ReplayLog of(String excerpt) {
        return new ReplayLog() {
            @Override
            public Optional<Replay> find(String key) {
                return Optional.ofNullable(replays.get(key(excerpt, key)));
            }

            @Override
            public void add(Replay replay) throws IOException {
                append(excerpt, replay);
            }
        };
    }

    private static String key(String excerpt, String replay) {
        return excerpt + "\n" + replay;
    }

    private void append(String excerpt, Replay replay) throws IOException {
        ObjectNode entry = JSON.createObjectNode().put("excerpt", excerpt);
        entry.set("replay", json(replay));
        byte[] line = (entry + "\n").getBytes(StandardCharsets.UTF_8);
        try {
            Files.write(file, line, StandardOpenOption.APPEND);
        } catch (IOException e) {
            throw NoSpaceException.of(file, Files.size(file) + line.length, e);
        }
        replays.put(key(excerpt, replay.key()), replay);
    }

    private static ObjectNode json(Replay replay) {
        ObjectNode node = JSON.createObjectNode()
                .put("key", replay.key())
                .put("non_finite", replay.nonFinite())
                .put("seconds", replay.seconds());
        node.set("losses", numbers(replay.losses()));
        node.set("norms", numbers(replay.norms()));
        node.set("gradients", JSON.valueToTree(replay.gradients().stream()
                .map(ReplayJournal::lists)
                .toList()));
        node.set("updates", JSON.valueToTree(lists(replay.updates())));
        return node;
    }

    /** Numbers as text: JSON has neither NaN nor infinity. */
    private static JsonNode numbers(List<Double> values) {
        return JSON.valueToTree(values.stream().map(String::valueOf).toList());
    }

    private static Map<String, List<String>> lists(Map<String, Difference> differences) {
        Map<String, List<String>> all = new TreeMap<>();
        differences.forEach((name, d) -> all.put(
                name,
                List.of(
                        String.valueOf(d.error()),
                        String.valueOf(d.cosine()),
                        String.valueOf(d.ratio()),
                        String.valueOf(d.elements()))));
        return all;
    }

    private static Replay replay(JsonNode node) throws JsonProcessingException {
        try {
            List<Map<String, Difference>> gradients = new ArrayList<>();
            node.path("gradients").forEach(g -> gradients.add(differences(g)));
            return new Replay(
                    node.path("key").asText(),
                    doubles(node.path("losses")),
                    doubles(node.path("norms")),
                    gradients,
                    differences(node.path("updates")),
                    node.path("non_finite").asText(),
                    node.path("seconds").asDouble());
        } catch (NumberFormatException | NullPointerException e) {
            throw new com.fasterxml.jackson.databind.JsonMappingException(null, "not a replay", e);
        }
    }

    private static List<Double> doubles(JsonNode values) {
        List<Double> all = new ArrayList<>();
        values.forEach(v -> all.add(Double.valueOf(v.asText())));
        return all;
    }

    private static Map<String, Difference> differences(JsonNode node) {
        Map<String, Difference> all = new TreeMap<>();
        node.properties()
                .forEach(e -> all.put(
                        e.getKey(),
                        new Difference(
                                Double.parseDouble(e.getValue().path(0).asText()),
                                Double.parseDouble(e.getValue().path(1).asText()),
                                Double.parseDouble(e.getValue().path(2).asText()),
                                Long.parseLong(e.getValue().path(3).asText()))));
        return all;
    }
}
