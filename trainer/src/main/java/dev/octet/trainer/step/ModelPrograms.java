package dev.octet.trainer.step;

import dev.octet.formats.graph.Node;
import dev.octet.trainer.activation.ActivationPlan;
import dev.octet.trainer.activation.WeightCasts;
import dev.octet.trainer.autodiff.Autodiff;
import dev.octet.trainer.autodiff.Parameter;
import dev.octet.trainer.autodiff.ProgramOptions;
import dev.octet.trainer.data.MicroBatch;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.loss.LossGraph;
import dev.octet.trainer.optimizer.UpdateProgram;
import dev.octet.trainer.precision.Fp8Choice;
import dev.octet.trainer.precision.LinearModule;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.reduction.RankSettings;
import dev.octet.trainer.state.StateForms;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;

/** The programs of a model as the settings of its run ask for them, before they are loaded or dealt out. */
final class ModelPrograms {
    private final TrainingSetup setup;
    private final OwnParts parts;
    private final WeightCasts casts;
    private PrecisionPolicy policy;

    /** @param parts what this rank has of the model */
    ModelPrograms(TrainingSetup setup, OwnParts parts, WeightCasts casts) {
        this.setup = setup;
        this.parts = parts;
        this.casts = casts;
        this.policy = setup.policy();
    }

    PrecisionPolicy policy() {
        return policy;
    }

    void use(PrecisionPolicy next) {
        policy = next;
    }

    /** How long casts of weights stay. */
    WeightCasts casts() {
        return casts;
    }

    /** This rank's part of the model with its loss. Which part of which weight follows from the first micro-batch. */
    LossGraph graph(MicroBatch batch) {
        return parts.of(whole(batch), policy);
    }

    /** The model with its loss. */
    LossGraph whole(MicroBatch batch) {
        Map<String, OperandType> data = new TreeMap<>();
        batch.tensors().forEach((name, t) -> data.put(name, new OperandType(t.dtype(), t.shape())));
        return LossGraph.of(
                setup.source().at(batch.shapes()),
                setup.loss(),
                data,
                setup.source().virtualTokens());
    }

    /** A program that keeps all activations. */
    Program plain(LossGraph graph, boolean trains) {
        Set<String> parameters = setup.parameters().names();
        List<String> read = new ArrayList<>(graph.parts().values());
        if (!trains) {
            read.add(graph.loss());
        }
        ProgramOptions options = trains
                ? ProgramOptions.training(graph.loss(), setup.trained(), parameters, policy)
                        .withOutputs(read)
                : ProgramOptions.forward(read, parameters, policy);
        return Autodiff.program(
                graph.model(), options.withStored(setup.stored()).withStates(setup.states()));
    }

    /** What it keeps as the run is configured. */
    ActivationPlan planned(Program plain) {
        return ActivationPlan.of(plain, setup.activations(), casts, parts.planning());
    }

    /** What a part of it keeps: that of a stage. */
    ActivationPlan plannedPart(Program part) {
        return ActivationPlan.ofPart(part, setup.activations(), casts, parts.planning());
    }

    /** The update of this rank's part of the parameters, whoever owns which. */
    UpdateProgram update(Program training) {
        return UpdateProgram.of(
                training,
                setup.optimizer(),
                setup.ownRate(),
                setup.noDecay(),
                setup.maxNorm(),
                setup.averages(),
                setup.states(),
                parts.shared());
    }

    /** Gradients of the matrices kept in few bits, or of all, are averaged in E4M3, unless all are averaged in F32. */
    Set<String> codedGradients() {
        RankSettings settings = setup.ranks();
        StateForms states = setup.states();
        return setup.parameters().all().stream()
                .filter(_ -> settings.reduction().isCoded())
                .filter(p -> states.isF32()
                        ? p.use() == Parameter.Use.WEIGHT
                        : !states.parameter(p.name(), p.tensor().shape()).isF32())
                .map(Parameter::name)
                .collect(Collectors.toSet());
    }

    /** Which of a program's layers compute in FP8. */
    Fp8Choice fp8(LossGraph graph, Program program) {
        Set<String> nodes = program.steps().stream().map(Step::node).collect(Collectors.toSet());
        for (Node n : graph.model().graph().nodes()) {
            if (nodes.contains(n.id())) {
                LinearModule.experts(n).forEach(expert -> nodes.add(expert.id()));
            }
        }
        return policy.fp8(graph.model().graph()).of(nodes);
    }
}
