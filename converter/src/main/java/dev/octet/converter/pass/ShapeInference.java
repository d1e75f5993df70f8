package dev.octet.converter.pass;

import dev.octet.converter.infer.Analysis;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Writes down the types of the main graph's inner values, as {@link Analysis} derives them: element types, and dimensions as
 * numbers or as the symbols of the inputs.
 *
 * <p>Outputs of unknown operators stay untyped. A shape that the file declares differently is noted and replaced, since
 * runtimes take the derived one too; an element type that the file declares differently is an error, as it is for them.
 */
public final class ShapeInference implements Pass {
    @Override
    public String name() {
        return "shape-inference";
    }

    /** @throws dev.octet.formats.error.MalformedModelException when operands of a node surely cannot go together */
    @Override
    public GraphModel apply(GraphModel model, PassLog log) {
        Graph graph = model.graph();
        Analysis analysis = Analysis.of(model);
        Map<String, ValueInfo> infos = new LinkedHashMap<>();
        for (Node n : graph.nodes()) {
            for (String value : n.outputs()) {
                ValueInfo old = graph.valueInfos().get(value);
                TensorType type = value.isEmpty() ? null : analysis.type(value);
                if (type != null) {
                    infos.put(value, old == null ? new ValueInfo(value, type) : old.withType(type));
                } else if (old != null) {
                    infos.put(value, old); // a sequence, a map or an optional: as declared
                }
            }
        }
        // The outputs' types stay where the file has them, in the list of outputs.
        graph.outputs().forEach(o -> infos.remove(o.name()));
        analysis.doubts().forEach(d -> log.note(name(), d.value(), d.text()));
        return infos.equals(graph.valueInfos()) ? model : model.withGraph(graph.withValueInfos(infos));
    }
}
