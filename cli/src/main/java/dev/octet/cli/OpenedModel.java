package dev.octet.cli;

import dev.octet.converter.Converter;
import dev.octet.converter.ModelSource;
import dev.octet.converter.TrainingGraph;
import dev.octet.converter.pass.PassLog;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.file.Sha256;
import dev.octet.formats.graph.GraphModel;
import dev.octet.trainer.step.GraphSource;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** A model file with its graph, canonical and at any sizes: what the converter makes of it, for the trainer. */
record OpenedModel(ModelSource file, Converter converter, GraphModel canonical) implements AutoCloseable {
    static OpenedModel of(Path path) throws IOException {
        ModelSource file = ModelSource.open(path);
        boolean opened = false;
        try {
            if (file.model().graph().isEmpty()) {
                throw new UnsupportedModelException(
                        "the model has tensors but no graph: what they compute is not known",
                        path.toString(),
                        "give an .onnx export of it");
            }
            Converter converter = Converter.of(file.model());
            opened = true;
            return new OpenedModel(file, converter, converter.canonical());
        } finally {
            if (!opened) {
                file.close();
            }
        }
    }

    /** SHA-256 of a model, by which a run knows it. */
    static String digest(Path model) throws IOException {
        return Files.isDirectory(model) ? Sha256.of(model.resolve("model.safetensors")) : Sha256.of(model);
    }

    GraphSource source() {
        return new GraphSource(canonical, (graph, sizes) -> TrainingGraph.of(graph, sizes, new PassLog()));
    }

    @Override
    public void close() {
        converter.close();
        file.close();
    }
}
