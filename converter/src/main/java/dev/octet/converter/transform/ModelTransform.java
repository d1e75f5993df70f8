package dev.octet.converter.transform;

import dev.octet.quant.transform.Transform;
import dev.octet.quant.transform.WeightStep;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * What transforms do to a model: the steps of each tensor that changes, in order, and the tensors that are new because two uses of one
 * weight no longer agree.
 */
public final class ModelTransform {
    private final List<Transform> transforms = new ArrayList<>();
    private final Map<String, List<WeightStep>> steps = new LinkedHashMap<>();
    private final Map<String, String> added = new LinkedHashMap<>();
    private final List<TransformStep> folds = new ArrayList<>();
    private final Map<String, String> left = new LinkedHashMap<>();
    private final Map<String, InputChange> inputs = new LinkedHashMap<>();
    private final List<String> notes = new ArrayList<>();
    private final List<String> values = new ArrayList<>();

    ModelTransform() {}

    /** Nothing changes. */
    public static ModelTransform none() {
        return new ModelTransform();
    }

    /** Whether nothing changes. */
    public boolean isNone() {
        return transforms.isEmpty();
    }

    void add(Transform transform) {
        transforms.add(transform);
    }

    void step(String tensor, WeightStep step) {
        steps.computeIfAbsent(tensor, _ -> new ArrayList<>()).add(step);
    }

    /** A new tensor that starts as a copy of another. */
    void copy(String tensor, String from) {
        added.put(tensor, from);
    }

    void fold(TransformStep fold) {
        folds.add(fold);
    }

    void leave(String module, String reason) {
        left.put(module, reason);
    }

    void note(String note) {
        notes.add(note);
    }

    void changeValues(String module) {
        values.add(module);
    }

    void input(String module, InputChange change) {
        inputs.merge(module, change, InputChange::then);
    }

    /** The same without clips, which change what the model computes and are for weights that are rounded. */
    public ModelTransform withoutClips() {
        ModelTransform floats = new ModelTransform();
        floats.transforms.addAll(transforms);
        steps.forEach((tensor, all) ->
                all.stream().filter(s -> !(s instanceof WeightStep.Clip)).forEach(s -> floats.step(tensor, s)));
        floats.added.putAll(added);
        floats.folds.addAll(folds);
        floats.left.putAll(left);
        floats.inputs.putAll(inputs);
        floats.notes.addAll(notes);
        floats.values.addAll(values);
        return floats;
    }

    /** The transforms, in the order they are done. */
    public List<Transform> transforms() {
        return List.copyOf(transforms);
    }

    /** The steps of each tensor that changes, by its name in the checkpoint or graph. */
    public Map<String, List<WeightStep>> steps() {
        return Collections.unmodifiableMap(steps);
    }

    /** New tensors, each with the one it starts from. */
    public Map<String, String> added() {
        return Collections.unmodifiableMap(added);
    }

    /** What is folded into what. */
    public List<TransformStep> folds() {
        return List.copyOf(folds);
    }

    /** Modules that a transform left as they are, with the reasons. */
    public Map<String, String> left() {
        return Collections.unmodifiableMap(left);
    }

    /** How the input of a module changes; modules whose input stays as it is are missing. */
    public Map<String, InputChange> inputs() {
        return Collections.unmodifiableMap(inputs);
    }

    /** Modules that make the values of attention and whose outputs change, and with them what a KV cache holds. */
    public List<String> changedValues() {
        return List.copyOf(values);
    }

    /** What a user should know. */
    public List<String> notes() {
        return List.copyOf(notes);
    }
}
