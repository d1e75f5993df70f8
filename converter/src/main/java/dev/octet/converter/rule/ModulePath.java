package dev.octet.converter.rule;

import dev.octet.formats.graph.Node;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * The place in the original program that a node comes from, as far as its exporter recorded it.
 *
 * <ol>
 *   <li>torch.onnx with TorchScript names nodes {@code /encoder/layer.0/attention/self/query/MatMul}: the path, then the operator.
 *   <li>torch.onnx with dynamo writes metadata {@code pkg.torch.onnx.name_scopes}: a list of growing dotted names, the last being
 *       the operation's: {@code ['', 'm', 'm.layers.0', 'm.layers.0.q_proj', 'linear_3']}.
 *   <li>Others (Paddle, TensorFlow) record nothing of use here.
 * </ol>
 *
 * <p>Both are brought to the first form, so that one regular expression addresses a node of any exporter.
 *
 * @param steps names of modules, outermost first; never empty
 */
public record ModulePath(List<String> steps) {
    /** Key in a node's metadata under which {@link #dotted()} is kept through rewriting. */
    static final String METADATA_KEY = "dev.octet.module";

    private static final String SCOPES = "pkg.torch.onnx.name_scopes";
    private static final Pattern QUOTED = Pattern.compile("'((?:[^'\\\\]|\\\\.)*)'");

    /** @throws IllegalArgumentException when {@code steps} is empty */
    public ModulePath {
        steps = List.copyOf(steps);
        if (steps.isEmpty()) {
            throw new IllegalArgumentException("a module path has at least one step");
        }
    }

    /** The path of {@code node}; null when its exporter did not record one. */
    public static @Nullable ModulePath of(Node node) {
        String scopes = node.metadata().get(SCOPES);
        return scopes != null ? ofScopes(scopes) : ofName(node.name());
    }

    // case 1
    private static @Nullable ModulePath ofName(String name) {
        int end = name.lastIndexOf('/');
        return name.startsWith("/") && end > 0
                ? new ModulePath(List.of(name.substring(1, end).split("/", -1)))
                : null;
    }

    // case 2
    private static @Nullable ModulePath ofScopes(String scopes) {
        List<String> names = new ArrayList<>();
        for (Matcher m = QUOTED.matcher(scopes); m.find(); ) {
            names.add(m.group(1));
        }
        List<String> steps = new ArrayList<>();
        String before = "";
        for (String name : names.subList(0, Math.max(0, names.size() - 1))) {
            if (!name.isEmpty()) {
                steps.add(
                        !before.isEmpty() && name.startsWith(before + ".")
                                ? name.substring(before.length() + 1)
                                : name);
                before = name;
            }
        }
        return steps.isEmpty() ? null : new ModulePath(steps);
    }

    /** The dotted module of a node, also of one that has replaced others; empty where it is unknown. */
    public static String moduleOf(Node node) {
        String kept = node.metadata().get(METADATA_KEY);
        if (kept != null) {
            return kept;
        }
        ModulePath path = of(node);
        return path == null ? "" : path.dotted();
    }

    /** Metadata of the node that replaces the pattern around {@code node}: that node's metadata and its module. */
    static Map<String, String> metadataFor(Node node) {
        ModulePath path = of(node);
        if (path == null) {
            return node.metadata();
        }
        Map<String, String> metadata = new LinkedHashMap<>(node.metadata());
        metadata.put(METADATA_KEY, path.dotted());
        return metadata;
    }

    /** As the original program writes it: {@code encoder.layer.0.attention.self.query}. */
    public String dotted() {
        return String.join(".", steps);
    }

    /** As TorchScript writes it: {@code /encoder/layer.0/attention/self/query}. */
    @Override
    public String toString() {
        return "/" + String.join("/", steps);
    }

    /** The name of the node that replaces the pattern around {@code node}: its module, or its own name where the module is unknown. */
    static String nameFor(Node node) {
        ModulePath path = of(node);
        return path == null ? node.id() : path.toString();
    }
}
