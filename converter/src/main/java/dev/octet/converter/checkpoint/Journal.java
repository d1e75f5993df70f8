package dev.octet.converter.checkpoint;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.file.NoSpaceException;
import dev.octet.formats.file.PartFile;
import java.io.IOException;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;

/**
 * The finished files of a run, recorded in its output folder until the run ends, so that the same command resumes where a killed one
 * stopped.
 *
 * <p>JSON lines: the first is the fingerprint of the run (source files with size and time, recipe, choices), each further line a finished
 * file with its size, its time, and the machine's boot id. A file is trusted when size and time match and the machine has not rebooted:
 * files are not synced, so after a crash of the machine a file's name may exist without its pages.
 */
final class Journal {
    static final String FILE_NAME = ".octet-journal.jsonl";

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Path BOOT_ID = Path.of("/proc/sys/kernel/random/boot_id");

    private final Path file;
    private final Map<String, JsonNode> finished;

    private Journal(Path file, Map<String, JsonNode> finished) {
        this.file = file;
        this.finished = finished;
    }

    /** Whether {@code folder} holds the work of an unfinished run. */
    static boolean isIn(Path folder) {
        return Files.exists(folder.resolve(FILE_NAME));
    }

    /**
     * Begins the journal of a run, or resumes the journal of an earlier run with the same fingerprint.
     *
     * @param fresh ignore an existing journal
     * @throws InvalidOptionException when the folder holds the unfinished work of another run; names the difference
     */
    static Journal open(Path folder, ObjectNode fingerprint, boolean fresh) throws IOException {
        Path file = folder.resolve(FILE_NAME);
        if (fresh || !Files.exists(file)) {
            replace(file, JSON.writeValueAsString(fingerprint) + "\n");
            return new Journal(file, new HashMap<>());
        }
        String text = text(file);
        // A line that a killed process left unfinished has no line break: it is dropped, or the next line would be
        // appended to it.
        String whole = text.substring(0, text.lastIndexOf('\n') + 1);
        if (!whole.equals(text)) {
            replace(file, whole);
        }
        List<String> lines = whole.lines().toList();
        Map<String, JsonNode> finished = new HashMap<>();
        try {
            JsonNode before = lines.isEmpty() ? JSON.createObjectNode() : JSON.readTree(lines.getFirst());
            requireSame(before, fingerprint, folder);
            for (String line : lines.subList(1, lines.size())) {
                JsonNode entry = JSON.readTree(line);
                finished.put(entry.path("file").asText(), entry);
            }
        } catch (JsonProcessingException e) {
            throw unreadable(file, e);
        }
        return new Journal(file, finished);
    }

    private static String text(Path file) throws IOException {
        try {
            return Files.readString(file);
        } catch (CharacterCodingException e) {
            throw unreadable(file, e);
        }
    }

    private static InvalidOptionException unreadable(Path file, IOException cause) {
        return new InvalidOptionException(
                "the journal of an earlier run in the output folder cannot be read",
                file.toString(),
                "start over with --force",
                cause);
    }

    /** Writes the file atomically: a process killed meanwhile leaves either the old file or all of {@code text}. */
    private static void replace(Path file, String text) throws IOException {
        Path part = PartFile.partOf(file);
        try {
            Files.writeString(part, text);
        } catch (IOException e) {
            throw NoSpaceException.of(file, text.length(), e);
        }
        Files.move(part, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    }

    private static void requireSame(JsonNode before, ObjectNode now, Path folder) {
        for (Iterator<String> names = now.fieldNames(); names.hasNext(); ) {
            String name = names.next();
            if (!now.get(name).equals(before.path(name))) {
                throw new InvalidOptionException(
                        "the output folder holds the unfinished work of another run: " + name + " differs",
                        folder.toString(),
                        "repeat that command to finish it, start over with --force, or choose another folder");
            }
        }
    }

    /** Whether {@code name} was finished and is unchanged. */
    boolean has(Path folder, String name) throws IOException {
        JsonNode entry = finished.get(name);
        Path path = folder.resolve(name);
        return entry != null
                && Files.isRegularFile(path)
                && entry.equals(describe(path, name))
                && !entry.path("boot").asText().isEmpty();
    }

    /** Records that {@code name} is finished. */
    void add(Path folder, String name) throws IOException {
        JsonNode entry = describe(folder.resolve(name), name);
        String line = JSON.writeValueAsString(entry) + "\n";
        try {
            Files.writeString(file, line, StandardCharsets.UTF_8, StandardOpenOption.APPEND);
        } catch (IOException e) {
            throw NoSpaceException.of(file, Files.size(file) + line.length(), e);
        }
        finished.put(name, entry);
    }

    private static JsonNode describe(Path path, String name) throws IOException {
        ObjectNode entry = JSON.createObjectNode();
        entry.put("file", name);
        entry.put("bytes", Files.size(path));
        entry.put("modified", Files.getLastModifiedTime(path).toString());
        entry.put("boot", Files.isReadable(BOOT_ID) ? Files.readString(BOOT_ID).strip() : "");
        try {
            return JSON.readTree(JSON.writeValueAsString(entry)); // gives numbers the same node types as a reading does
        } catch (JsonProcessingException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Deletes the journal at the end of the run. */
    void delete() throws IOException {
        Files.deleteIfExists(file);
    }
}
