package dev.octet.formats.checkpoint;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.exc.StreamConstraintsException;
import com.fasterxml.jackson.core.util.DefaultIndenter;
import com.fasterxml.jackson.core.util.DefaultPrettyPrinter;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.cfg.JsonNodeFeature;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.file.JsonFault;
import dev.octet.formats.file.NoSpaceException;
import dev.octet.formats.file.PartFile;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Optional;

/** JSON files in Hugging Face folders: {@code config.json}, {@code hf_quant_config.json}. */
public final class ModelConfig {
    /** The model's configuration. */
    public static final String FILE_NAME = "config.json";

    /** Far more than a real configuration has; keeps a hostile file from filling the heap. */
    static final long MAX_BYTES = 16L << 20;

    private static final int MAX_NESTING = 100;
    private static final String DOWNLOAD_AGAIN = "download or export the folder again";

    private static final ObjectMapper JSON = JsonMapper.builder(JsonFactory.builder()
                    .streamReadConstraints(StreamReadConstraints.builder()
                            .maxNestingDepth(MAX_NESTING)
                            .build())
                    .build())
            // writes 10000.0 as 10000.0, not as 1E+4
            .enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
            .disable(JsonNodeFeature.STRIP_TRAILING_BIGDECIMAL_ZEROES)
            .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
            .build();

    private ModelConfig() {}

    /**
     * Reads {@code config.json} in {@code folder}; empty if missing.
     *
     * @throws MalformedModelException when the file is not a JSON object, or too long
     */
    public static Optional<ObjectNode> read(Path folder) throws IOException {
        return read(folder, FILE_NAME);
    }

    /** The JSON object in file {@code name} of {@code folder}; as {@link #read(Path)}. */
    public static Optional<ObjectNode> read(Path folder, String name) throws IOException {
        return read(folder, name, MAX_BYTES);
    }

    /**
     * The same for a file that may be longer, such as {@code tokenizer.json}.
     *
     * @param maxBytes the longest that is read
     */
    public static Optional<ObjectNode> read(Path folder, String name, long maxBytes) throws IOException {
        Path file = folder.resolve(name);
        if (!Files.isRegularFile(file)) {
            return Optional.empty();
        }
        if (Files.size(file) > maxBytes) {
            throw new MalformedModelException(
                    name + " has " + Files.size(file) + " bytes, at most " + maxBytes + " are read",
                    file.toString(),
                    "put the model's own " + name + " there");
        }
        return Optional.of(read(Files.readAllBytes(file), name, file.toString()));
    }

    /**
     * Writes a JSON file atomically, indented as by Hugging Face's libraries.
     *
     * @throws IOException when writing fails
     */
    public static void write(Path file, ObjectNode json) throws IOException {
        DefaultPrettyPrinter printer = new DefaultPrettyPrinter();
        DefaultIndenter indenter = new DefaultIndenter("  ", "\n");
        printer.indentObjectsWith(indenter);
        printer.indentArraysWith(indenter);
        String text = JSON.writer(printer).writeValueAsString(json) + "\n";
        Path part = PartFile.partOf(file);
        try {
            try {
                Files.writeString(part, text);
            } catch (IOException e) {
                throw NoSpaceException.of(file, text.length(), e);
            }
            Files.move(part, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } finally {
            Files.deleteIfExists(part);
        }
    }

    /**
     * Parses a text as a JSON object, for example a configuration in a model's metadata.
     *
     * @param where for messages
     * @throws MalformedModelException when the text is not a JSON object, or too long
     */
    public static ObjectNode parse(String text, String where) {
        if (text.length() > MAX_BYTES) {
            throw new MalformedModelException(
                    "the configuration has " + text.length() + " characters, at most " + MAX_BYTES + " are read",
                    where,
                    "leave it out of the file");
        }
        return read(text.getBytes(StandardCharsets.UTF_8), "the configuration", where);
    }

    private static ObjectNode read(byte[] bytes, String name, String where) {
        try {
            return object(JSON.readTree(bytes), name, where);
        } catch (StreamConstraintsException | NumberFormatException e) { // Jackson does not wrap an endless exponent
            throw new MalformedModelException(
                    name + " is nested more than " + MAX_NESTING
                            + " deep, or has a number, name or text that is too long to be one of a configuration",
                    where,
                    DOWNLOAD_AGAIN,
                    e);
        } catch (JsonProcessingException e) {
            JsonFault fault = JsonFault.of(e, bytes);
            throw new MalformedModelException(
                    name + " is not JSON: " + fault.what(),
                    fault.in(where),
                    fault.fix().isEmpty() ? DOWNLOAD_AGAIN : fault.fix(),
                    e);
        } catch (IOException e) { // of bytes in memory: such as look like UTF-32 and are not
            throw new MalformedModelException(name + " is not JSON: it is no UTF-8", where, DOWNLOAD_AGAIN, e);
        }
    }

    private static ObjectNode object(JsonNode json, String name, String where) {
        if (json instanceof ObjectNode object) {
            return object;
        }
        throw new MalformedModelException(name + " is not a JSON object", where, DOWNLOAD_AGAIN);
    }
}
