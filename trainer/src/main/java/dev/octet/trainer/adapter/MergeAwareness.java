package dev.octet.trainer.adapter;

import com.fasterxml.jackson.databind.JsonNode;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.peft.LoraConfig;
import dev.octet.formats.peft.PeftConfig;
import dev.octet.formats.peft.PeftKeys;
import dev.octet.formats.peft.PeftRole;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.layout.CodedWeight;
import dev.octet.quant.layout.FusedWeights;
import dev.octet.quant.layout.StoredGrids;
import dev.octet.quant.layout.WeightForm;
import dev.octet.quant.merge.WeightGrid;
import dev.octet.quant.scale.ScaleRule;
import dev.octet.trainer.autodiff.MergedNodes;
import dev.octet.trainer.precision.LinearModule;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Training that is aware of the merge ({@code merge_aware: true}): Linears compute with the bytes that {@code octet merge} will write. The key
 * {@link #STAMP} of {@code adapter_config.json} says with which quantiser, because the adapter next to its base is another model.
 */
public final class MergeAwareness {
    /** The key in {@code adapter_config.json}. */
    public static final String STAMP = "octet_merge_aware";

    /** Changes when the bytes change that the quantiser writes for a weight. */
    public static final String QUANTISER = "octet/1";

    private final LoraConfig lora;
    private final AdapterEdit edit;
    private final StoredGrids grids;
    private final Map<String, LinearModule> targets = new LinkedHashMap<>();

    private MergeAwareness(LoraConfig lora, AdapterEdit edit, StoredGrids grids, List<LinearModule> targets) {
        this.lora = lora;
        this.edit = edit;
        this.grids = grids;
        targets.forEach(t -> this.targets.put(t.name(), t));
    }

    /**
     * As a configuration says; empty without the stamp.
     *
     * @throws InvalidOptionException when the method has no merged weight that training could compute with
     */
    static Optional<MergeAwareness> of(AdapterSettings settings, AdapterEdit edit, List<LinearModule> targets) {
        JsonNode stamp = settings.config().json().path(STAMP);
        if (!stamp.isObject()) {
            return Optional.empty();
        }
        LoraConfig lora = settings.config().lora();
        String start = lora.initLoraWeights();
        boolean plain = List.of("true", "false", "gaussian", "orthogonal").contains(start);
        if (lora.useDora() || lora.loraDropout() > 0 || !plain) {
            throw new InvalidOptionException(
                    "merge_aware does not go with "
                            + (lora.useDora() ? "use_dora" : plain ? "lora_dropout" : "init_lora_weights: " + start),
                    settings.where("merge_aware"),
                    "train plain LoRA or rsLoRA: the merged weight has neither norms of its own nor dropout");
        }
        StoredGrids grids = new StoredGrids(
                ScaleRule.Exponent.valueOf(stamp.path("mx_exponent").asText(ScaleRule.Exponent.CEIL.name())),
                stamp.path("scale_fmt").asText("").equals("ue8m0"));
        return Optional.of(new MergeAwareness(lora, edit, grids, targets));
    }

    /** What a checkpoint in a layout needs to know of the merge, for {@link #STAMP}. */
    public static PeftConfig stamped(PeftConfig config, String layout, StoredGrids grids) {
        var json = config.json();
        json.putObject(STAMP)
                .put("quantiser", QUANTISER)
                .put("layout", layout)
                .put("mx_exponent", grids.exponent().name())
                .put("scale_fmt", grids.powersOfTwo() ? "ue8m0" : "float");
        return PeftConfig.of(json, config.where());
    }

    /** Makes a Linear compute with its merged weight; false where its weight is not quantised, which needs no such thing. */
    boolean apply(LinearModule target, AdapterEdit.Behind behind, String a, String b) {
        Optional<CodedWeight> weight = edit.coded(target.weight());
        if (weight.isEmpty()) {
            return false;
        }
        List<String> inputs = new ArrayList<>(List.of(a, b));
        List<MergedNodes.Product> products = new ArrayList<>(List.of(product(target)));
        float baseScale = Float.NaN;
        Optional<WeightGrid> grid = grids.grid(weight.get().form());
        if (grid.isPresent() && grid.get().hasWholeScale()) {
            float own = whole(weight.get());
            for (String sibling : siblings(target.name())) {
                LinearModule module = targets.get(sibling);
                String name = module == null ? sibling + ".weight" : module.weight();
                Optional<CodedWeight> other = edit.coded(name);
                if (other.isEmpty() || whole(other.get()) != own) {
                    continue;
                }
                if (module == null) {
                    baseScale = own;
                } else {
                    inputs.add(name);
                    inputs.add(PeftKeys.key(sibling, PeftRole.LORA_A));
                    inputs.add(PeftKeys.key(sibling, PeftRole.LORA_B));
                    products.add(product(module));
                }
            }
        }
        behind.extended(inputs, new MergedNodes(grids, baseScale, products).attribute());
        return true;
    }

    private MergedNodes.Product product(LinearModule module) {
        return new MergedNodes.Product((float) lora.scaling(module.name()), !module.transB());
    }

    private static List<String> siblings(String module) {
        String parent = module.substring(0, module.lastIndexOf('.') + 1);
        return FusedWeights.siblings(module).stream()
                .map(last -> parent + last)
                .filter(m -> !m.equals(module))
                .toList();
    }

    /** The scale of the whole weight as {@link WeightGrid#wholeScale} gives it. */
    private static float whole(CodedWeight weight) {
        WeightForm form = weight.form();
        WeightForm.Second second = form.second();
        if (second != null) {
            return second.value();
        }
        if (form.blocks().scaleCount() != 1) {
            return Float.NaN;
        }
        try (Arena arena = Arena.ofConfined()) {
            return form.scales(weight.scales(), 0, 1, arena).get(Tensor.F32_LE, 0);
        }
    }
}
