package dev.octet.trainer.precision;

import dev.octet.quant.recipe.LinearTensor;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.recipe.Product;
import dev.octet.quant.recipe.ProductOperand;
import dev.octet.quant.recipe.TrainingRecipe;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * A Linear that is computed in FP8.
 *
 * @param node id of its node
 * @param input name of x
 * @param weight name of W
 * @param inputOwner id of the first Linear that quantises the same x in the same way: the state of the input's scale is kept under its name
 * @param changes operands that are not quantised as the recipe says
 * @param fakeQuantize whether all products are computed in the narrow type from what the codes stand for
 * @param fakeResults how results of products are quantised and widened again
 */
public record Fp8Layer(
        String node,
        String input,
        String weight,
        String inputOwner,
        TrainingRecipe recipe,
        Map<ProductOperand, OperandChange> changes,
        boolean fakeQuantize,
        Map<Product, OperandSpec> fakeResults) {
    public Fp8Layer {
        changes = Map.copyOf(changes);
        fakeResults = Map.copyOf(fakeResults);
    }

    /** A layer whose products' results stay as they are. */
    public Fp8Layer(
            String node,
            String input,
            String weight,
            String inputOwner,
            TrainingRecipe recipe,
            Map<ProductOperand, OperandChange> changes,
            boolean fakeQuantize) {
        this(node, input, weight, inputOwner, recipe, changes, fakeQuantize, Map.of());
    }

    /** How an operand is quantised; null when the product takes it as it is. */
    public @Nullable OperandSpec operand(Product product, LinearTensor tensor) {
        OperandSpec spec = recipe.operand(product, tensor);
        OperandChange change = changes.get(new ProductOperand(product, tensor));
        return change == null ? spec : change.of(spec);
    }

    /** Whether an operand of a product is quantised. */
    public boolean isQuantized(Product product) {
        return operand(product, product.left()) != null || operand(product, product.right()) != null;
    }

    /** Whether a product is computed in the narrow type from what the codes of its operands stand for. */
    boolean isFake(Product product) {
        return fakeQuantize
                || ProductOperand.of(product).stream().anyMatch(o -> changes.get(o) instanceof OperandChange.Fake);
    }

    Fp8Layer withInputOwner(String owner) {
        return new Fp8Layer(node, input, weight, owner, recipe, changes, fakeQuantize, fakeResults);
    }

    /**
     * The module that it belongs to, as its weight is named: {@code model.layers.0.mlp.up_proj}. Where the weight has a name that says nothing of
     * modules, as exporters give them, the node's with dots.
     */
    public String module() {
        return LinearModule.name(node, weight);
    }

    /**
     * Under what name the state of a tensor's scale is kept, as the states {@code NAME.quant_scale} and {@code NAME.amax_history} (delayed
     * scaling) or {@code NAME.amax} (current scaling, inputs only).
     */
    public String slot(LinearTensor tensor) {
        return switch (tensor) {
            case INPUT -> "fp8." + inputOwner + ".input";
            case WEIGHT -> "fp8." + weight + ".weight";
            case GRAD_OUTPUT -> "fp8." + node + ".grad_output";
        };
    }
}
