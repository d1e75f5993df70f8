package dev.octet.converter.runtime;

import dev.octet.formats.file.TemporaryFolder;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.onnx.OnnxWriter;
import java.io.IOException;
import java.nio.file.Path;

/**
 * Loads graphs that exist only in memory, for example graphs of Hugging Face checkpoints. A graph goes through a temporary file, which is
 * removed after loading, or at the end of the process where files in use cannot be removed (Windows).
 */
public final class GraphSession {
    private GraphSession() {}

    /**
     * Loads a graph.
     *
     * @param model standard ONNX
     * @throws dev.octet.formats.error.UnsupportedModelException when ONNX Runtime refuses the graph
     * @throws dev.octet.formats.error.UnavailableException when ONNX Runtime cannot be loaded
     * @throws IOException when the temporary file cannot be written
     */
    public static OnnxRuntimeSession open(GraphModel model, SessionSettings settings) throws IOException {
        OnnxRuntime.require();
        try (TemporaryFolder folder = TemporaryFolder.create("graph")) {
            Path file = folder.path().resolve("graph.onnx");
            OnnxWriter.write(model, file);
            return OnnxRuntime.open(file, settings);
        }
    }
}
