package dev.octet.trainer.op.loss;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * How far a student's distribution over classes is from a teacher's: {@code T² Σ p (log p - log q)} for each position, p = softmax(t / T),
 * q = softmax(x / T), averaged over the positions that count (Hinton et al. 2015, arXiv:1503.02531, §2: T² keeps the gradient's size).
 * Octet's {@code KlDivergenceLoss}. Inputs: x [.., classes], t in the same shape, and perhaps either labels [..], of which those that
 * are {@code ignore_index} leave their position out (with {@code shift} a position's label is that of the next one), or, as input 3,
 * weights of the positions [..], such as an attention mask. The teacher is taken as constant. Output: F32; 0 / 0 when nothing counts.
 *
 * <p>Saved: log Σ exp of the scaled scores of each position, the student's and the teacher's, and what the sum is divided by. So both
 * are read once forward and once backward, and no softmax lies in memory between.
 *
 * @param positions the student's scores and what labels mean
 * @param teacher type of input 1
 * @param temperature T, above 0
 */
public record KlDivergenceLoss(ClassLabels positions, OperandType teacher, float temperature) implements Op {
    /** Its row in the table of operators. */
    public static final OpEntry<KlDivergenceLoss> ENTRY = OpEntry.of(
                    KlDivergenceLoss.class,
                    new KlDivergenceLossReference(),
                    new KlDivergenceLossCpu(),
                    new KlDivergenceLossCuda())
            .octet("KlDivergenceLoss", KlDivergenceLoss::read);

    /** Reads Octet's {@code KlDivergenceLoss}. */
    static KlDivergenceLoss read(OpSource source) {
        OperandType student = source.input(0);
        OperandType teacher = source.input(1);
        int rank = student.shape().rank();
        if (rank == 0 || !student.shape().equals(teacher.shape())) {
            throw source.refusal(
                    "the teacher's scores are " + teacher.shape() + ", the student's " + student.shape(),
                    "give scores of the same shape, classes last");
        }
        Long ignored = source.node().attributes().containsKey("ignore_index")
                ? source.node().intAttribute("ignore_index", 0)
                : null;
        KlDivergenceLoss loss = of(
                student,
                teacher,
                source.node().floatAttribute("temperature", 1),
                ignored,
                source.node().intAttribute("shift", 0) != 0);
        for (int i = 2; i < 4; i++) {
            if (source.has(i) && source.input(i).count() != loss.positions.count()) {
                throw source.refusal(
                        "input " + i + " is " + source.input(i).shape() + " for scores of " + student.shape(),
                        "give it the scores' shape without the axis of classes");
            }
        }
        return loss;
    }

    /** For scores of these types; {@code ignored} may be null where there are no labels. */
    public static KlDivergenceLoss of(
            OperandType student, OperandType teacher, float temperature, @Nullable Long ignored, boolean shift) {
        ClassLabels c = ClassLabels.of(student, student.shape().rank() - 1, ignored, Reduction.MEAN);
        return new KlDivergenceLoss(shift ? c.shifted() : c, teacher, temperature);
    }

    @Override
    public String type() {
        return "KlDivergenceLoss";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(positions.loss());
    }

    @Override
    public List<OperandType> saved() {
        return List.of(positions.perPosition(), positions.perPosition(), new OperandType(DType.F32, Shape.SCALAR));
    }

    @Override
    public boolean isDifferentiable(int i) {
        return i == 0;
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return true;
    }

    @Override
    public boolean backwardReadsOutput(int j) {
        return j > 0;
    }
}
