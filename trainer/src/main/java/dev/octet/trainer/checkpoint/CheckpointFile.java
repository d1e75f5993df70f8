package dev.octet.trainer.checkpoint;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.databind.json.JsonMapper;
import dev.octet.formats.ModelFile;
import dev.octet.formats.OctetVersion;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.file.AtomicFile;
import dev.octet.formats.file.Sha256;
import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/**
 * One checkpoint: a folder of {@code parameters.safetensors} (masters under the graph's names: a model to be read anywhere),
 * {@code state.safetensors} (everything else on the device), {@code checkpoint.json} (step, position in the data, settings) and
 * {@code SHA256SUMS} over these, in the format of {@code sha256sum}. Equal states give equal bytes. Opened, it owns the mapped files.
 */
public final class CheckpointFile implements AutoCloseable {
    static final String PARAMETERS = "parameters.safetensors";
    static final String STATE = "state.safetensors";
    static final String JSON = "checkpoint.json";
    static final String SUMS = "SHA256SUMS";

    private static final List<String> FILES = List.of(JSON, PARAMETERS, STATE);
    private static final int VERSION = 1;
    private static final int MAX_QUOTED = 60;
    private static final ObjectMapper MAPPER = JsonMapper.builder()
            .enable(SerializationFeature.INDENT_OUTPUT)
            .enable(SerializationFeature.ORDER_MAP_ENTRIES_BY_KEYS)
            .build();

    private final TrainingState state;
    private final List<ModelFile> files;

    private CheckpointFile(TrainingState state, List<ModelFile> files) {
        this.state = state;
        this.files = files;
    }

    /** Writes the files into a new folder; who calls makes it appear under its final name. */
    static void write(Path folder, TrainingState state) throws IOException {
        SafetensorsWriter.write(folder.resolve(PARAMETERS), state.parameters(), Map.of());
        SafetensorsWriter.write(folder.resolve(STATE), state.state(), Map.of());
        Map<String, Object> json = new LinkedHashMap<>();
        json.put("format", "octet-checkpoint");
        json.put("version", VERSION);
        json.put("octet", OctetVersion.current());
        json.put("step", state.step());
        json.put("micro_batches", state.microBatches());
        json.put("settings", state.settings());
        json.put("numbers", state.numbers());
        writeText(folder.resolve(JSON), MAPPER.writeValueAsString(json) + "\n");
        StringBuilder sums = new StringBuilder();
        for (String file : FILES) {
            sums.append(Sha256.of(folder.resolve(file)))
                    .append("  ")
                    .append(file)
                    .append('\n');
        }
        writeText(folder.resolve(SUMS), sums.toString());
    }

    private static void writeText(Path file, String text) throws IOException {
        try (AtomicFile out = AtomicFile.create(file)) {
            out.write(ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8)));
            out.commit();
        }
    }

    /**
     * Checks every byte against the digests, then opens.
     *
     * @throws MalformedModelException when a file is missing, changed or not what it should be
     * @throws IOException when a file cannot be read
     */
    public static CheckpointFile open(Path folder) throws IOException {
        checkSums(folder);
        Metadata json = metadata(folder);
        long step = json.count("step");
        long microBatches = json.count("micro_batches");
        Map<String, String> settings = json.texts("settings");
        Map<String, String> numbers = json.texts("numbers");
        ModelFile parameters = ModelFile.open(folder.resolve(PARAMETERS));
        ModelFile state;
        try {
            state = ModelFile.open(folder.resolve(STATE));
        } catch (IOException | OctetException e) {
            parameters.close();
            throw e;
        }
        TrainingState read =
                new TrainingState(step, microBatches, settings, numbers, tensors(parameters), tensors(state));
        return new CheckpointFile(read, List.of(parameters, state));
    }

    private static Map<String, Tensor> tensors(ModelFile file) {
        return file.model().tensors();
    }

    /** {@code checkpoint.json}: with the right digest, yet perhaps not what Octet would write. */
    private record Metadata(JsonNode json, Path folder) {
        long count(String key) {
            JsonNode node = json.path(key);
            if (node.isIntegralNumber() && node.canConvertToLong() && node.asLong() >= 0) {
                return node.asLong();
            }
            throw wrong(key, node, "a whole number from 0 to " + Long.MAX_VALUE);
        }

        Map<String, String> texts(String key) {
            JsonNode node = json.path(key);
            if (!node.isObject()) {
                throw wrong(key, node, "an object of texts");
            }
            Map<String, String> texts = new TreeMap<>();
            for (Map.Entry<String, JsonNode> e : node.properties()) {
                if (!e.getValue().isTextual()) {
                    throw wrong(key + "." + e.getKey(), e.getValue(), "a text");
                }
                texts.put(e.getKey(), e.getValue().textValue());
            }
            return texts;
        }

        private MalformedModelException wrong(String key, JsonNode found, String wanted) {
            String is = found.isMissingNode() ? "is missing" : "is " + shortened(found.toString());
            return damaged(folder, JSON + ": '" + key + "' " + is + ", needed is " + wanted, null);
        }

        private static String shortened(String text) {
            return text.length() <= MAX_QUOTED ? text : text.substring(0, MAX_QUOTED) + "...";
        }
    }

    private static Metadata metadata(Path folder) throws IOException {
        JsonNode json;
        try {
            // as text: of bytes the parser would guess the encoding, and fail as files do when it guessed wrong
            json = MAPPER.readTree(new String(Files.readAllBytes(folder.resolve(JSON)), StandardCharsets.UTF_8));
        } catch (JsonProcessingException e) {
            throw damaged(folder, JSON + " is not JSON: " + e.getOriginalMessage(), e);
        }
        if (!json.isObject()) {
            throw damaged(folder, JSON + " is not a JSON object", null);
        }
        if (!"octet-checkpoint".equals(json.path("format").asText())
                || json.path("version").asInt() != VERSION) {
            throw new MalformedModelException(
                    "the checkpoint is of version " + json.path("version").asText("?") + ", this Octet reads "
                            + VERSION,
                    folder.resolve(JSON).toString(),
                    "resume with the Octet that wrote it: " + json.path("octet").asText("unknown"));
        }
        return new Metadata(json, folder);
    }

    /** What is wrong with a checkpoint's bytes is said once, of the first file that differs. */
    private static void checkSums(Path folder) throws IOException {
        Map<String, String> sums = new LinkedHashMap<>();
        try {
            for (String line : Files.readAllLines(folder.resolve(SUMS))) {
                String[] parts = line.split("  ", 2);
                sums.put(parts.length == 2 ? parts[1] : "", parts[0]);
            }
            for (String file : FILES) {
                String actual = Sha256.of(folder.resolve(file));
                if (!actual.equals(sums.get(file))) {
                    throw damaged(
                            folder,
                            file + " has SHA-256 " + actual + ", not " + sums.getOrDefault(file, "any known"),
                            null);
                }
            }
        } catch (NoSuchFileException e) {
            throw damaged(folder, Path.of(e.getFile()).getFileName() + " is missing", e);
        } catch (CharacterCodingException e) {
            throw damaged(folder, SUMS + " is not text", e);
        }
    }

    private static MalformedModelException damaged(Path folder, String what, @Nullable Exception cause) {
        String text = "checkpoint " + folder.getFileName() + " is damaged: " + what;
        String fix = "go on from another checkpoint";
        return cause == null
                ? new MalformedModelException(text, folder.toString(), fix)
                : new MalformedModelException(text, folder.toString(), fix, cause);
    }

    /** What the checkpoint holds; its tensors are views that die with {@link #close()}. */
    public TrainingState state() {
        return state;
    }

    @Override
    public void close() {
        files.forEach(ModelFile::close);
    }
}
