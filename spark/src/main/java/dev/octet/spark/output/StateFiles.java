package dev.octet.spark.output;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** Small JSON files among the state of a run. */
record StateFiles(FileSystem files) {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** Writes a file that must not exist. */
    void create(Path file, ObjectNode content) throws IOException {
        write(file, content, false);
    }

    /** Writes a file under another name and renames it, so that a reader finds all of it or nothing. */
    void put(Path file, ObjectNode content) throws IOException {
        Path part = file.suffix(".part");
        write(part, content, true);
        files.delete(file, false);
        if (!files.rename(part, file)) {
            throw new IOException("'" + part + "' could not be renamed to '" + file.getName() + "'");
        }
    }

    private void write(Path file, ObjectNode content, boolean overwrite) throws IOException {
        try (FSDataOutputStream out = files.create(file, overwrite)) {
            out.write(JSON.writeValueAsString(content).getBytes(StandardCharsets.UTF_8));
        }
    }

    /** The content of a file; empty where it is not all there. */
    ObjectNode read(Path file) throws IOException {
        try (FSDataInputStream in = files.open(file)) {
            return JSON.readTree(in.readAllBytes()) instanceof ObjectNode object ? object : JSON.createObjectNode();
        } catch (JsonProcessingException e) {
            return JSON.createObjectNode(); // half of it, by a process that was killed
        }
    }

    static ObjectNode object() {
        return JSON.createObjectNode();
    }
}
