package dev.octet.converter.runtime;

import dev.octet.formats.file.Unfinished;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.onnx.OnnxWriter;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/**
 * Loads graphs that lie in no file, such as those of Hugging Face checkpoints. A graph goes through a temporary file, which is removed as soon
 * as it is loaded; where files in use cannot be removed (Windows), when the process ends.
 */
public final class GraphSession {
    private GraphSession() {}

    /**
     * Loads a graph.
     *
     * @param model standard ONNX
     * @throws dev.octet.formats.error.UnsupportedModelException when ONNX Runtime refuses it
     * @throws dev.octet.formats.error.UnavailableException when ONNX Runtime cannot be loaded
     * @throws IOException when the temporary file cannot be written
     */
    public static OnnxRuntimeSession open(GraphModel model, SessionSettings settings) throws IOException {
        OnnxRuntime.require();
        Path folder = Unfinished.folder("octet-graph-");
        try {
            Path file = folder.resolve("graph.onnx");
            OnnxWriter.write(model, file);
            return OnnxRuntime.open(file, settings);
        } finally {
            delete(folder);
            Unfinished.ended(folder);
        }
    }

    private static void delete(Path folder) throws IOException {
        List<Path> files;
        try (Stream<Path> walk = Files.walk(folder)) {
            files = walk.sorted(Comparator.reverseOrder()).toList();
        }
        for (Path file : files) {
            try {
                Files.delete(file);
            } catch (IOException e) { // in use
                file.toFile().deleteOnExit();
            }
        }
    }
}
