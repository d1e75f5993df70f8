package dev.octet.trainer.precision;

import static java.util.Objects.requireNonNull;

import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.recipe.LinearTensor;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.recipe.OperandSpec.Scaling;
import dev.octet.quant.recipe.Product;
import dev.octet.quant.recipe.ProductOperand;
import dev.octet.quant.recipe.TrainingRecipe.DelayedScaling;
import dev.octet.quant.scale.AmaxHistory;
import dev.octet.quant.scale.MsampScale;
import dev.octet.quant.scale.QuantScaleRule;
import dev.octet.quant.scale.TransformerEngineScale;
import dev.octet.quant.scale.WindowedScale;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.cast.Cast;
import dev.octet.trainer.op.fp8.Accumulation;
import dev.octet.trainer.op.fp8.AmaxUpdate;
import dev.octet.trainer.op.fp8.CodedMatrix;
import dev.octet.trainer.op.fp8.FakeQuantize;
import dev.octet.trainer.op.fp8.Fp8GroupedLinear;
import dev.octet.trainer.op.fp8.Fp8Linear;
import dev.octet.trainer.op.fp8.ProductForm;
import dev.octet.trainer.op.fp8.QuantizeFp8;
import dev.octet.trainer.op.fp8.QuantizeFp8Delayed;
import dev.octet.trainer.op.fp8.QuantizeState;
import dev.octet.trainer.op.fp8.QuantizeWindowed;
import dev.octet.trainer.program.Emitter;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import dev.octet.trainer.state.StateForm;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** Writes the FP8 steps of one program. */
final class Fp8Writer implements PrecisionPolicy {
    private final Autocast base;
    private final Fp8Plan plan;
    private final boolean trains;
    private final @Nullable CodedWeights codedWeights;

    /** What has been quantised, and how: several Linears that read one value share its codes. */
    private final Map<List<Object>, Coded> coded = new HashMap<>();

    private final Map<Value, Value> narrow = new HashMap<>();

    /** Slots of delayed scaling in use, by name. */
    private final Map<String, Slot> forwardSlots = new LinkedHashMap<>();

    private final Map<String, Slot> backwardSlots = new LinkedHashMap<>();

    Fp8Writer(Autocast base, Fp8Plan plan, boolean trains) {
        this(base, plan, trains, null);
    }

    /** @param codedWeights null where weights are floats */
    Fp8Writer(Autocast base, Fp8Plan plan, boolean trains, @Nullable CodedWeights codedWeights) {
        this.codedWeights = codedWeights;
        this.base = base;
        this.plan = plan;
        this.trains = trains;
    }

    /**
     * Weights that are kept in codes, and are cast to FP8 from these.
     *
     * @param form of the weights
     * @param lasting whether the FP8 codes are made once a step and kept, not with each micro-batch
     */
    record CodedWeights(StateForm form, boolean lasting) {}

    @Override
    public boolean readsCodes() {
        return codedWeights != null;
    }

    /** Codes and the scales that belong to them. */
    private record Coded(Value codes, Value scale) {}

    /** State of one delayed scale. */
    private record Slot(AmaxUpdate.Slot kind, boolean fused, Value quantScale, Value history) {}

    @Override
    public String name() {
        return base.name();
    }

    @Override
    public DType low() {
        return base.low();
    }

    @Override
    public Rule rule(Node node) {
        return plan.isFusedNorm(node) ? Rule.F32 : base.rule(node);
    }

    @Override
    public boolean writes(Node node) {
        return plan.layer(node) != null || plan.group(node) != null;
    }

    @Override
    public @Nullable Value linear(Node node, Value x, Value w, @Nullable Value bias, Emitter emitter) {
        Fp8Layer layer = plan.layer(node);
        return layer == null ? null : new LinearSteps(layer, node, x, w, bias, emitter).emit();
    }

    @Override
    public @Nullable Value groupedLinear(Node node, List<Value> inputs, Emitter emitter) {
        List<Fp8Layer> group = plan.group(node);
        if (group == null) {
            return null;
        }
        int experts = group.size();
        boolean hasBias = inputs.size() > 2 + experts;
        List<LinearSteps> each = new ArrayList<>();
        for (int e = 0; e < experts; e++) {
            Value bias = hasBias ? inputs.get(2 + experts + e) : null;
            each.add(new LinearSteps(group.get(e), node, inputs.get(0), inputs.get(2 + e), bias, emitter));
        }
        return emit(each, inputs.get(1), emitter);
    }

    /** The Linears of experts as one step behind the casts of their weights. */
    private Value emit(List<LinearSteps> experts, Value offsets, Emitter emitter) {
        LinearSteps first = experts.getFirst();
        Node node = first.node;
        Fp8Linear layer = first.product();
        OperandSpec input = first.layer.operand(Product.FPROP, LinearTensor.INPUT);
        boolean delayed = input != null && input.scaling() instanceof Scaling.Delayed;
        Fp8GroupedLinear.Granularities granularities = new Fp8GroupedLinear.Granularities(
                first.granularity(Product.FPROP, LinearTensor.INPUT),
                first.granularity(Product.DGRAD, LinearTensor.GRAD_OUTPUT),
                first.granularity(Product.WGRAD, LinearTensor.GRAD_OUTPUT),
                first.granularity(Product.WGRAD, LinearTensor.INPUT));
        int records = input == null || !trains
                ? 0
                : input.scaling() instanceof Scaling.Delayed(int _, int length, AmaxHistory.Algorithm _) ? length : 1;
        Fp8GroupedLinear op = new Fp8GroupedLinear(layer, experts.size(), granularities, records);
        @Nullable Value[] inputs = new @Nullable Value[Fp8GroupedLinear.at(experts.size(), 0)];
        inputs[Fp8GroupedLinear.X] = first.narrow(first.x);
        inputs[Fp8GroupedLinear.OFFSETS] = offsets;
        List<Value> outputs = new ArrayList<>();
        outputs.add(emitter.temporary(node.output(), layer.y()));
        outputs.add(emitter.temporary("scales:" + node.output(), new OperandType(DType.F32, Shape.of(experts.size()))));
        for (int e = 0; e < experts.size(); e++) {
            LinearSteps expert = experts.get(e);
            expert.putWeights(layer, inputs, Fp8GroupedLinear.at(e, 0));
            if (delayed) {
                Slot slot = expert.slot(LinearTensor.INPUT, requireNonNull(input));
                inputs[Fp8GroupedLinear.at(e, Fp8GroupedLinear.X_QUANT_SCALE)] = slot.quantScale();
                inputs[Fp8GroupedLinear.at(e, Fp8GroupedLinear.X_HISTORY)] = slot.history();
            }
            if (records > 0) {
                String amax = expert.layer.slot(LinearTensor.INPUT) + ".amax";
                outputs.add(
                        delayed
                                ? requireNonNull(inputs[Fp8GroupedLinear.at(e, Fp8GroupedLinear.X_HISTORY)])
                                : emitter.state(amax, LinearSteps.one(), 0));
            }
        }
        emitter.step(Phase.FORWARD, node.id(), op, Arrays.asList(inputs), outputs);
        return outputs.getFirst();
    }

    @Override
    public Value storedInput(Node node, Value x, int in, int out, Emitter emitter) {
        CodedMatrix form = storedForm(node, Product.FPROP, LinearTensor.INPUT, x, in);
        return form == null ? x : faked(node, x, form, null, emitter);
    }

    @Override
    public Value storedResult(Node node, Value y, int in, int out, Emitter emitter) {
        CodedMatrix form = trains ? storedForm(node, Product.DGRAD, LinearTensor.GRAD_OUTPUT, y, out) : null;
        return form == null ? y : faked(node, y, null, form, emitter);
    }

    /** How an activation or a gradient is quantised that meets stored codes: with a scale from its own values, also where the recipe's is delayed. */
    private @Nullable CodedMatrix storedForm(Node node, Product product, LinearTensor tensor, Value v, int cols) {
        Fp8Layer layer = plan.layer(node);
        OperandSpec spec = layer == null ? null : layer.operand(product, tensor);
        if (spec == null || cols == 0) {
            return null;
        }
        int rows = Math.toIntExact(v.type().count() / cols);
        QuantScaleRule rule = spec.scaling() instanceof Scaling.Current(QuantScaleRule own)
                ? own
                : new TransformerEngineScale(0, false, false);
        return new CodedMatrix(spec.format(), CodedMatrix.blocks(spec.granularity(), rows, cols), rule);
    }

    private static Value faked(
            Node node, Value v, @Nullable CodedMatrix forward, @Nullable CodedMatrix backward, Emitter emitter) {
        String name = (forward == null ? "fake:gradient:" : "fake:") + node.id() + ":" + v.name();
        Value made = emitter.temporary(name, v.type());
        FakeQuantize op = new FakeQuantize(v.type(), forward, backward);
        emitter.step(Phase.FORWARD, node.id(), op, List.of(v), List.of(made));
        return made;
    }

    @Override
    public void afterForward(Emitter emitter) {
        update(Phase.FORWARD, forwardSlots, emitter);
    }

    @Override
    public void afterBackward(Emitter emitter) {
        update(Phase.BACKWARD, backwardSlots, emitter);
    }

    /** One step for all slots of a kind. */
    private void update(Phase phase, Map<String, Slot> slots, Emitter emitter) {
        for (boolean fused : new boolean[] {true, false}) {
            List<AmaxUpdate.Slot> kinds = new ArrayList<>();
            List<Value> states = new ArrayList<>();
            for (Slot s : slots.values()) {
                if (s.fused() == fused) {
                    kinds.add(s.kind());
                    states.add(s.quantScale());
                    states.add(s.history());
                }
            }
            if (!kinds.isEmpty() && trains) {
                emitter.step(phase, "fp8", new AmaxUpdate(kinds, fused), new ArrayList<>(states), states);
            }
        }
    }

    /** The steps of one Linear. */
    private final class LinearSteps {
        private final Fp8Layer layer;
        private final Node node;
        private final Value x;
        private final Value w;
        private final @Nullable Value bias;
        private final Emitter emitter;
        private final boolean transB;
        private final int in;
        private final int out;
        private final int rows;

        LinearSteps(Fp8Layer layer, Node node, Value x, Value w, @Nullable Value bias, Emitter emitter) {
            this.layer = layer;
            this.node = node;
            this.x = x;
            this.w = w;
            this.bias = bias;
            this.emitter = emitter;
            this.transB = node.intAttribute("transB", 0) != 0;
            this.in = Math.toIntExact(w.type().shape().dim(transB ? 1 : 0));
            this.out = Math.toIntExact(w.type().shape().dim(transB ? 0 : 1));
            this.rows = in == 0 ? 0 : Math.toIntExact(x.type().count() / in);
        }

        Value emit() {
            ProductForm fprop = form(Product.FPROP);
            ProductForm dgrad = trains ? form(Product.DGRAD) : ProductForm.plain(low());
            ProductForm wgrad = trains ? form(Product.WGRAD) : ProductForm.plain(low());
            boolean plainX = fprop.left() == null || (trains && wgrad.right() == null);
            boolean plainW = fprop.right() == null || (trains && dgrad.right() == null);
            // a fused normalisation's F32 is quantised as it is
            Value quantized = x.type().dtype() == DType.F32 && fusedInput() ? x : narrow(x);
            Value flow = plainX ? narrow(x) : quantized;
            OperandType y = Fp8Linear.resultType(x.type(), w.type(), transB, low());
            Fp8Linear op =
                    new Fp8Linear(flow.type(), w.type(), bias != null, transB, y, fprop, dgrad, wgrad, biasType(fprop));
            @Nullable Value[] inputs = new @Nullable Value[Fp8Linear.INPUTS];
            inputs[Fp8Linear.X] = fakedGradient(Product.DGRAD, LinearTensor.INPUT, flow);
            inputs[Fp8Linear.W] = fakedGradient(Product.WGRAD, LinearTensor.WEIGHT, w);
            inputs[Fp8Linear.BIAS] = bias;
            inputs[Fp8Linear.W_NARROW] = plainW ? narrow(w) : null;
            put(inputs, Fp8Linear.X_CODES, quantized, LinearTensor.INPUT, Product.FPROP, fprop.left());
            put(inputs, Fp8Linear.W_CODES, w, LinearTensor.WEIGHT, Product.FPROP, fprop.right());
            if (trains && op.wgradHasOwnInput()) {
                put(inputs, Fp8Linear.X_CODES_WGRAD, quantized, LinearTensor.INPUT, Product.WGRAD, wgrad.right());
            }
            if (trains && op.dgradHasOwnWeight()) {
                put(inputs, Fp8Linear.W_CODES_DGRAD, w, LinearTensor.WEIGHT, Product.DGRAD, dgrad.right());
            }
            if (trains && op.hasDelayedGradient()) {
                WindowedScale window = op.dgrad().left() == null
                        ? null
                        : window(op.dgrad().left().rule());
                Slot slot = window == null ? slot(LinearTensor.GRAD_OUTPUT, delayedGradient()) : null;
                String name = layer.slot(LinearTensor.GRAD_OUTPUT);
                inputs[Fp8Linear.DY_QUANT_SCALE] = slot == null ? quantScale(name) : slot.quantScale();
                inputs[Fp8Linear.DY_HISTORY] = slot == null ? window(name, requireNonNull(window)) : slot.history();
            }
            Value result = emitter.temporary(node.output(), y);
            emitter.step(Phase.FORWARD, node.id(), op, Arrays.asList(inputs), List.of(result));
            OperandSpec faked = layer.fakeResults().get(Product.FPROP);
            // y lies as dy does
            return faked == null ? result : faked(result, matrix(faked, LinearTensor.GRAD_OUTPUT), null);
        }

        /** What a product reads in place of {@code v}, so that the gradient it makes for it is quantised and widened on its way back. */
        private Value fakedGradient(Product product, LinearTensor tensor, Value v) {
            OperandSpec spec = layer.fakeResults().get(product);
            return spec == null || !trains ? v : faked(v, null, matrix(spec, tensor));
        }

        private Value faked(Value v, @Nullable CodedMatrix forward, @Nullable CodedMatrix backward) {
            String name = (forward == null ? "fake:gradient:" : "fake:") + node.id() + ":" + v.name();
            Value made = emitter.temporary(name, v.type());
            FakeQuantize op = new FakeQuantize(v.type(), forward, backward);
            emitter.step(Phase.FORWARD, node.id(), op, List.of(v), List.of(made));
            return made;
        }

        /** The product of all rows, as each expert computes its own. */
        Fp8Linear product() {
            ProductForm fprop = form(Product.FPROP);
            ProductForm dgrad = trains ? form(Product.DGRAD) : ProductForm.plain(low());
            ProductForm wgrad = trains ? form(Product.WGRAD) : ProductForm.plain(low());
            OperandType y = Fp8Linear.resultType(x.type(), w.type(), transB, low());
            return new Fp8Linear(
                    x.type().as(low()), w.type(), bias != null, transB, y, fprop, dgrad, wgrad, biasType(fprop));
        }

        @Nullable
        Granularity granularity(Product product, LinearTensor tensor) {
            OperandSpec spec = layer.operand(product, tensor);
            return spec == null || (product != Product.FPROP && !trains) ? null : spec.granularity();
        }

        /** Puts an expert's weight, its casts and the state of its gradient's scale among the inputs of the step for all. */
        void putWeights(Fp8Linear product, @Nullable Value[] inputs, int at) {
            inputs[at + Fp8GroupedLinear.W] = w;
            inputs[at + Fp8GroupedLinear.BIAS] = bias;
            if (product.fprop().right() == null || (trains && product.dgrad().right() == null)) {
                inputs[at + Fp8GroupedLinear.W_NARROW] = narrow(w);
            }
            CodedMatrix own = product.fprop().right();
            put(inputs, at + Fp8GroupedLinear.W_CODES, w, LinearTensor.WEIGHT, Product.FPROP, own);
            if (trains && product.dgradHasOwnWeight()) {
                CodedMatrix back = product.dgrad().right();
                put(inputs, at + Fp8GroupedLinear.W_CODES_DGRAD, w, LinearTensor.WEIGHT, Product.DGRAD, back);
            }
            if (trains && product.hasDelayedGradient()) {
                Slot slot = slot(LinearTensor.GRAD_OUTPUT, delayedGradient());
                inputs[at + Fp8GroupedLinear.DY_QUANT_SCALE] = slot.quantScale();
                inputs[at + Fp8GroupedLinear.DY_HISTORY] = slot.history();
            }
        }

        private boolean fusedInput() {
            return plan.readsFusedNorm(layer);
        }

        /** The narrow bias belongs to the epilogue of a product on codes; any other product is one of the base type, with its bias. */
        private DType biasType(ProductForm fprop) {
            return low() == DType.F32 && fprop.onCodes() && layer.recipe().narrowsBias() ? DType.BF16 : low();
        }

        /** How the recipe computes a product. */
        private ProductForm form(Product product) {
            CodedMatrix left = matrix(product, product.left());
            CodedMatrix right = matrix(product, product.right());
            boolean onCodes = left != null && right != null && !layer.isFake(product);
            boolean exact = onCodes
                    && isPowerOfTwo(layer.operand(product, product.left()))
                    && isPowerOfTwo(layer.operand(product, product.right()));
            DType widened = onCodes ? (exact ? DType.BF16 : DType.F32) : low();
            ProductForm form = new ProductForm(left, right, onCodes, widened);
            if (!onCodes || !plan.accumulatesLikeHopper()) {
                return form;
            }
            return form.with(product == Product.FPROP ? Accumulation.HOPPER_FAST : Accumulation.HOPPER_SPLIT);
        }

        private static boolean isPowerOfTwo(@Nullable OperandSpec spec) {
            return spec != null
                    && spec.scaling() instanceof Scaling.Current(QuantScaleRule rule)
                    && rule.isPowerOfTwo();
        }

        /** The operand's codes, as they lie in memory; null when the product takes it as it is. */
        private @Nullable CodedMatrix matrix(Product product, LinearTensor tensor) {
            OperandSpec spec = layer.operand(product, tensor);
            return spec == null ? null : matrix(spec, tensor);
        }

        private CodedMatrix matrix(OperandSpec spec, LinearTensor tensor) {
            return new CodedMatrix(spec.format(), blocks(spec.granularity(), tensor), rule(spec));
        }

        private Blocks blocks(Granularity granularity, LinearTensor tensor) {
            return switch (tensor) {
                case INPUT -> CodedMatrix.blocks(granularity, rows, in);
                case GRAD_OUTPUT -> CodedMatrix.blocks(granularity, rows, out);
                case WEIGHT -> {
                    Blocks outIn = CodedMatrix.blocks(granularity, out, in);
                    yield transB ? outIn : outIn.transposed();
                }
            };
        }

        /** How the gradient is quantised in whichever product takes it with a delayed scale. */
        private OperandSpec delayedGradient() {
            return Stream.of(Product.DGRAD, Product.WGRAD)
                    .map(p -> layer.operand(p, LinearTensor.GRAD_OUTPUT))
                    .filter(spec -> spec != null && spec.scaling() instanceof Scaling.Delayed)
                    .findFirst()
                    .orElseThrow();
        }

        private static @Nullable QuantScaleRule rule(OperandSpec spec) {
            return spec.scaling() instanceof Scaling.Current(QuantScaleRule rule) ? rule : null;
        }

        /** The value in the narrow type; made in PREPARE when it is a parameter. */
        private Value narrow(Value v) {
            if (v.type().dtype() == low()) {
                return v;
            }
            return narrow.computeIfAbsent(v, from -> {
                OperandType type = from.type().as(low());
                Value to = made("cast:" + low().name().toLowerCase(Locale.ROOT) + ":" + from.name(), from, type);
                emitter.step(phaseOf(from), node.id(), new Cast(from.type(), low()), List.of(from), List.of(to));
                return to;
            });
        }

        private void put(
                @Nullable Value[] inputs,
                int at,
                Value source,
                LinearTensor tensor,
                Product product,
                @Nullable CodedMatrix matrix) {
            if (matrix != null) {
                Coded made = quantized(source, tensor, product, matrix);
                inputs[at] = made.codes();
                inputs[at + 1] = made.scale();
            }
        }

        private Coded quantized(Value source, LinearTensor tensor, Product product, CodedMatrix matrix) {
            OperandSpec spec = requireNonNull(layer.operand(product, tensor));
            // delayed: a tensor's scale is its slot's; two recipes for one value are two slots
            List<Object> key = List.of(source, matrix, spec.scaling(), layer.slot(tensor));
            Coded known = coded.get(key);
            if (known == null) {
                known = switch (spec.scaling()) {
                    case Scaling.Current(QuantScaleRule rule)
                    when rule instanceof WindowedScale windowed -> windowed(source, tensor, spec, windowed);
                    case Scaling.Current(QuantScaleRule rule)
                    when codedWeights != null && isCoded(source) -> codedWeight(source, spec, (MsampScale) rule);
                    case Scaling.Current _ -> current(source, tensor, product, matrix);
                    case Scaling.Delayed _ -> delayed(source, tensor, spec);
                    case Scaling.FromValues _, Scaling.FromStatistics _, Scaling.Dynamic _ ->
                        throw new IllegalStateException(
                                spec.scaling().getClass().getSimpleName() + " is not for training");
                };
                coded.put(key, known);
            }
            return known;
        }

        private Coded current(Value source, LinearTensor tensor, Product product, CodedMatrix matrix) {
            boolean records = trains && tensor == LinearTensor.INPUT && product == Product.FPROP;
            Op op = new QuantizeFp8(source.type(), matrix, records);
            String kind = product.name().toLowerCase(Locale.ROOT) + ":";
            OperandChange change = layer.changes().get(new ProductOperand(product, tensor));
            // layers that share a value may differ in how they changed it
            String changed = change == null ? "" : node.id() + ":";
            List<Value> outputs = outputs(op, source, kind + changed);
            if (records) {
                outputs.add(emitter.state(layer.slot(tensor) + ".amax", one(), 0));
            }
            emitter.step(phaseOf(source), node.id(), op, List.of(source), outputs);
            return new Coded(outputs.get(0), outputs.get(1));
        }

        private Coded delayed(Value source, LinearTensor tensor, OperandSpec spec) {
            Slot slot = slot(tensor, spec);
            int length = trains ? slot.kind().length() : 0;
            Op op = new QuantizeFp8Delayed(source.type(), spec.format(), length);
            List<Value> outputs = outputs(op, source, "");
            List<@Nullable Value> inputs = new ArrayList<>(List.of(source, slot.quantScale()));
            if (trains) {
                inputs.add(slot.history());
                outputs.add(slot.history());
            }
            emitter.step(phaseOf(source), node.id(), op, inputs, outputs);
            return new Coded(outputs.get(0), outputs.get(1));
        }

        /** Codes by MS-AMP's window of steps. */
        private Coded windowed(Value source, LinearTensor tensor, OperandSpec spec, WindowedScale rule) {
            String name = layer.slot(tensor);
            QuantizeWindowed op = new QuantizeWindowed(source.type(), spec.format(), rule, trains);
            List<Value> outputs = outputs(op, source, "");
            List<@Nullable Value> inputs = List.of(source, quantScale(name), window(name, rule));
            if (trains) {
                outputs.add(quantScale(name));
                outputs.add(window(name, rule));
            }
            emitter.step(phaseOf(source), node.id(), op, inputs, outputs);
            return new Coded(outputs.get(0), outputs.get(1));
        }

        private static @Nullable WindowedScale window(@Nullable QuantScaleRule rule) {
            return rule instanceof WindowedScale windowed ? windowed : null;
        }

        private Value quantScale(String slot) {
            return emitter.state(slot + ".quant_scale", one(), 1);
        }

        private Value window(String slot, WindowedScale rule) {
            return emitter.state(slot + ".window", new OperandType(DType.F32, Shape.of(rule.length())), 0);
        }

        /** Whether a weight is kept in codes. */
        private static boolean isCoded(Value w) {
            return w.role() == ValueRole.PARAMETER && w.type().dtype() == DType.F16;
        }

        /** Codes of a weight that is kept in codes of another type; made for each micro-batch, or once for all where they are kept, too. */
        private Coded codedWeight(Value source, OperandSpec spec, MsampScale rule) {
            CodedWeights kept = requireNonNull(codedWeights);
            OperandType tensor = source.type().as(DType.F32);
            QuantizeState op = new QuantizeState(kept.form(), tensor, spec.format(), rule);
            Value scale = emitter.state(StateForm.scale(source.name()), one(), 1);
            String name = "fp8:" + layer.recipe().name() + ":" + source.name();
            List<Value> made = new ArrayList<>();
            for (int i = 0; i < op.outputs().size(); i++) {
                String part = i == 0 ? name : "scale:" + name;
                made.add(
                        kept.lasting()
                                ? emitter.prepared(part, op.outputs().get(i))
                                : emitter.temporary(part, op.outputs().get(i)));
            }
            Phase phase = kept.lasting() ? Phase.PREPARE : Phase.FORWARD;
            emitter.step(phase, node.id(), op, List.of(source, scale), made);
            return new Coded(made.get(0), made.get(1));
        }

        /** Codes and scale. */
        private List<Value> outputs(Op op, Value source, String kind) {
            String name = "fp8:" + layer.recipe().name() + ":" + kind + source.name();
            List<Value> outputs = new ArrayList<>();
            outputs.add(made(name, source, op.outputs().get(0)));
            outputs.add(made("scale:" + name, source, op.outputs().get(1)));
            return outputs;
        }

        private Slot slot(LinearTensor tensor, OperandSpec spec) {
            Scaling.Delayed delayed = (Scaling.Delayed) spec.scaling();
            Map<String, Slot> slots = tensor == LinearTensor.GRAD_OUTPUT ? backwardSlots : forwardSlots;
            return slots.computeIfAbsent(layer.slot(tensor), name -> {
                AmaxUpdate.Slot kind = new AmaxUpdate.Slot(
                        spec.format(), delayed.margin(), delayed.historyLength(), delayed.algorithm());
                boolean fused = !(layer.recipe() instanceof DelayedScaling d) || d.fusedUpdate();
                OperandType history = new OperandType(DType.F32, Shape.of(delayed.historyLength()));
                return new Slot(
                        kind,
                        fused,
                        emitter.state(name + ".quant_scale", one(), 1),
                        emitter.state(name + ".amax_history", history, 0));
            });
        }

        /** A value made from another, which lives as long as that: parameters' are made once per step. */
        private Value made(String name, Value from, OperandType type) {
            return phaseOf(from) == Phase.PREPARE ? emitter.prepared(name, type) : emitter.temporary(name, type);
        }

        private static Phase phaseOf(Value from) {
            return switch (from.role()) {
                case PARAMETER, STORED, PREPARED -> Phase.PREPARE;
                case INPUT, CONSTANT, STATE, GRADIENT, TEMPORARY, HOSTED -> Phase.FORWARD;
            };
        }

        private static OperandType one() {
            return new OperandType(DType.F32, Shape.of(1));
        }
    }
}
