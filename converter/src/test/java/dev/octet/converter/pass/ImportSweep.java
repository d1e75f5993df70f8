package dev.octet.converter.pass;

import dev.octet.converter.infer.Analysis;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.onnx.OnnxReader;
import dev.octet.formats.onnx.OnnxWriter;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.foreign.Arena;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;

/**
 * Runs passes over many models in one JVM, for comparing their outputs in ONNX Runtime before and after by hand; not a test.
 *
 * <p>{@code ImportSweep upgrade|import|fixed|types IN OUT}: every {@code .onnx} file below IN, written under the same relative name
 * below OUT ({@code types}: instead, a file of lines "value dtype [dims]" with what is derived for the outputs alone).
 */
final class ImportSweep {
    private ImportSweep() {}

    public static void main(String[] args) throws IOException {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        Path from = Path.of(args[1]);
        List<Path> files;
        try (var walk = Files.walk(from)) {
            files = walk.filter(p -> p.toString().endsWith(".onnx")).sorted().toList();
        }
        for (Path file : files) {
            Path to = Path.of(args[2]).resolve(from.relativize(file));
            Files.createDirectories(to.toAbsolutePath().getParent());
            try (Arena arena = Arena.ofConfined()) {
                convert(args[0], OnnxReader.read(file, arena), to, out);
            } catch (OctetException e) {
                out.println("REFUSED " + file + ": " + e.what() + " | " + e.where());
            }
        }
    }

    private static void convert(String mode, GraphModel model, Path to, PrintStream out) throws IOException {
        PassLog log = new PassLog();
        switch (mode) {
            case "upgrade" -> OnnxWriter.write(new OpsetUpgrade().apply(model, log), to);
            case "import" -> {
                GraphModel imported = ImportPasses.apply(model, log);
                OnnxWriter.write(imported, to);
                out.println(to.getFileName() + " " + model.graph().nodes().size() + " -> "
                        + imported.graph().nodes().size());
                log.notes().forEach(n -> out.println("  " + n));
            }
            case "fixed" -> {
                GraphModel fixed = ImportPasses.specialise(ImportPasses.apply(model, log), sizes(model), log);
                OnnxWriter.write(fixed, to);
                out.println(to.getFileName() + " " + model.graph().nodes().size() + " -> "
                        + fixed.graph().nodes().size() + " "
                        + fixed.graph().nodes().stream()
                                .collect(Collectors.groupingBy(Node::opType, TreeMap::new, Collectors.counting())));
            }
            case "types" -> Files.writeString(to, types(model.graph(), model.opset()));
            default -> throw new IllegalArgumentException(mode);
        }
    }

    /** 2 for every symbol that is a first dimension, 9 for the others. */
    private static Map<String, Long> sizes(GraphModel model) {
        Map<String, Long> sizes = new TreeMap<>();
        for (ValueInfo input : model.graph().inputs()) {
            if (input.type() instanceof TensorType t && t.dims() != null) {
                for (int i = 0; i < t.dims().size(); i++) {
                    String symbol = t.dims().get(i).symbol();
                    if (symbol != null) {
                        sizes.putIfAbsent(symbol, i == 0 ? 2L : 9L);
                    }
                }
            }
        }
        return sizes;
    }

    private static String types(Graph g, long opset) {
        Graph bare = new Graph(
                g.name(),
                g.nodes(),
                g.initializers(),
                g.inputs(),
                g.outputs().stream().map(o -> o.withType(null)).toList(),
                Map.of(),
                g.doc(),
                g.metadata(),
                g.unknown());
        Analysis analysis = Analysis.of(bare, opset, null);
        StringBuilder lines = new StringBuilder();
        g.outputs().forEach(o -> {
            var t = analysis.type(o.name());
            lines.append(o.name()).append('\t').append(t == null ? "?" : t).append('\n');
        });
        return lines.toString();
    }
}
