package dev.octet.trainer.autodiff;

import dev.octet.formats.graph.GraphModel;
import dev.octet.trainer.op.update.LossCheck;
import dev.octet.trainer.op.update.UpdateOp;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.ProgramBuilder;
import dev.octet.trainer.program.Value;
import java.util.Arrays;
import java.util.List;

/** Lowers a canonical graph with concrete shapes to a program, with gradients by reverse-mode differentiation. */
public final class Autodiff {
    private Autodiff() {}

    /**
     * Builds the program that computes what {@code options} ask for.
     *
     * @throws dev.octet.formats.error.UnsupportedModelException when operators cannot be trained (the message lists all) or a dimension is
     *     open
     * @throws dev.octet.formats.error.InvalidOptionException when a name in the options is not in the graph
     * @throws dev.octet.formats.error.InvalidDataException when no trained parameter affects the loss
     */
    public static Program program(GraphModel model, ProgramOptions options) {
        NeededGraph graph = NeededGraph.of(model, options);
        ProgramBuilder builder = new ProgramBuilder();
        PrecisionPolicy policy = options.policy().forProgram(model.graph(), options.hasBackward());
        ForwardPass forward = new ForwardPass(graph, options, policy, builder);
        forward.emit();
        for (String name : options.outputs()) {
            builder.output(name, forward.value(name));
        }
        if (options.loss() != null) {
            Value loss = forward.value(options.loss());
            builder.output(Program.LOSS, loss);
            if (loss.type().count() == 1) {
                Value bad = builder.state(Program.LOSS_NON_FINITE, UpdateOp.SCALAR, 0);
                builder.step(Phase.FORWARD, "loss", new LossCheck(loss.type()), Arrays.asList(loss, bad), List.of(bad));
            }
        }
        if (options.hasBackward()) {
            new BackwardPass(forward, options, policy, builder).emit();
        }
        return builder.build();
    }
}
