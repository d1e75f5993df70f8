package dev.octet.converter.rule;

import dev.octet.converter.pass.Pass;
import dev.octet.converter.pass.PassLog;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Tensor;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * Gives weights of Linear nodes the names they had in the original program, where the exporter dropped them: torch.onnx stores
 * {@code nn.Linear} weights transposed, under names like {@code onnx::MatMul_787} or {@code val_48}. Runs after {@link FusePatterns}.
 *
 * <p>Sources, best first:
 *
 * <ol>
 *   <li>the bias, which keeps its name, when this node alone reads it and it lies in the module the node comes from (or the module is
 *       unknown): {@code encoder.layer.0.attention.self.query.bias}; exporters let one constant serve biases of equal value, so a bias of
 *       another module proves nothing;
 *   <li>the module: {@code encoder.layer.0.attention.self.query} has a {@code weight}, if it is a leaf (a product in a module that has
 *       modules inside is a function call, whose weight may come from anywhere).
 * </ol>
 *
 * <p>A renamed constant carries {@link #ORIGINAL_NAME} and {@link #ORIGINAL_LAYOUT} in its metadata. Its own name is the original one, or
 * that with a number where it is taken: a tied embedding remains next to the transposed copy for the output layer. Names of other
 * exporters (Paddle, TensorFlow) mean something and stay.
 */
public final class RecoverNames implements Pass {
    /** Key in a constant's metadata: the tensor's name in the original program. */
    public static final String ORIGINAL_NAME = Initializer.ORIGINAL_NAME;
    /** Key in a constant's metadata: how the original lies in memory, {@link #OUT_IN}. The constant itself lies as transB says. */
    public static final String ORIGINAL_LAYOUT = Initializer.ORIGINAL_LAYOUT;
    /** Layout of {@code nn.Linear}: one row for each output. */
    public static final String OUT_IN = Initializer.OUT_IN;

    /** Names that torch.onnx makes up: of constants, and of values that folding computed. */
    private static final Pattern MADE_UP = Pattern.compile(
            "onnx::.*|_?val_\\d+|\\d+|.*_output_\\d+|(t|numpy_t|permute|transpose|linear_weight)(_\\d+)?");

    private static final Pattern BIAS = Pattern.compile("(?:(?<module>.+)\\.)?(?<prefix>[^.]*)bias");

    @Override
    public String name() {
        return "recover-names";
    }

    @Override
    public GraphModel apply(GraphModel model, PassLog log) {
        GraphEdit edit = GraphEdit.of(model.graph());
        Set<String> parents = parents(edit);
        int recovered = 0;
        for (Node n : edit.nodes()) {
            // Renaming replaces the nodes that read the constant, so look them up again.
            if (n.isOctet(CanonicalOps.LINEAR) && recover(edit, n.input(1), n, parents, log)) {
                recovered++;
            }
        }
        if (recovered == 0) {
            return model;
        }
        log.note(name(), "", recovered + " weights got their original names back");
        return model.withGraph(edit.build());
    }

    /** Modules that have modules inside. */
    private static Set<String> parents(GraphEdit edit) {
        Set<String> parents = new HashSet<>();
        for (Node n : edit.nodes()) {
            String module = ModulePath.moduleOf(n);
            for (int dot = module.lastIndexOf('.'); dot > 0; dot = module.lastIndexOf('.', dot - 1)) {
                parents.add(module.substring(0, dot));
            }
        }
        return parents;
    }

    private boolean recover(GraphEdit edit, String weight, Node linear, Set<String> parents, PassLog log) {
        Initializer constant = edit.initializer(weight);
        if (constant == null || !MADE_UP.matcher(weight).matches() || edit.isInput(weight) || edit.isOutput(weight)) {
            return false;
        }
        String original = original(edit, linear, parents, log);
        if (original == null) {
            return false;
        }
        Map<String, String> metadata = new LinkedHashMap<>(constant.metadata());
        metadata.put(ORIGINAL_NAME, original);
        metadata.put(ORIGINAL_LAYOUT, OUT_IN);
        String name = edit.freshName(original);
        if (!name.equals(original)) {
            log.note(name(), linear.id(), taken(edit, constant, original) + ", so the weight is '" + name + "'");
        }
        edit.putInitializer(new Initializer(name, constant.data(), constant.doc(), metadata, constant.unknown()));
        edit.redirect(weight, name);
        edit.removeInitializer(weight);
        return true;
    }

    private @Nullable String original(GraphEdit edit, Node linear, Set<String> parents, PassLog log) {
        String module = ModulePath.moduleOf(linear);
        String bias = linear.input(2);
        var match = BIAS.matcher(bias);
        // case 1
        if (match.matches()
                && match.group("module") != null
                && edit.consumers(bias).size() == 1) {
            String owner = match.group("module");
            if (module.isEmpty() || owner.equals(module)) {
                return owner + "." + match.group("prefix") + "weight";
            }
            log.note(
                    name(), linear.id(), "bias '" + bias + "' is of another module, the weight is named by the node's");
        }
        // case 2
        return module.isEmpty() || parents.contains(module) ? null : module + ".weight";
    }

    private static String taken(GraphEdit edit, Initializer constant, String name) {
        Optional<Tensor> a = constant.tensor();
        Initializer other = edit.initializer(name);
        Optional<Tensor> b = other == null ? Optional.empty() : other.tensor();
        return a.isPresent() && b.isPresent() && a.get().isTransposeOf(b.get())
                ? "'" + name + "' is the same weight transposed (tied)"
                : "'" + name + "' is taken";
    }
}
