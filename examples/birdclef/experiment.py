"""
BirdCLEF 2023 CodeDAG 优化实验

说明：
- 训练逻辑完全复用原有 baseline.py 的代码
- 只添加监控和数据管道优化的包装
"""

import torch
from torch.utils.data import DataLoader

# CodeDAG 组件
from codedag import EnhancedTracer, OptimizerManager, PipelineMigrator
from codedag.experiment import ExperimentMonitor

# ============================================================
# 导入原有 baseline.py 的所有组件（不做任何修改）
# ============================================================
from baseline import (
    BirdCLEFDataset,
    BirdCLEFModel,
    CONFIG,
    df_train,          # 原有数据
    # 如果 baseline.py 有独立的 train_epoch 函数，也可以导入
)

device = "cuda" if torch.cuda.is_available() else "cpu"


def train_epoch_with_monitor(model, dataloader, optimizer, criterion, epoch, monitor):
    """
    带监控的训练循环

    注意：这里的训练逻辑应该与原有 baseline.py 保持一致，
    只是添加了 monitor 的调用来记录指标。
    """
    model.train()
    total_loss = 0
    correct = 0
    total = 0

    for batch_idx, (inputs, targets) in enumerate(dataloader):
        monitor.start_batch()

        # ===== 以下是原有的训练逻辑，保持不变 =====
        inputs, targets = inputs.to(device), targets.to(device)

        optimizer.zero_grad()
        outputs = model(inputs)
        loss = criterion(outputs, targets)
        loss.backward()
        optimizer.step()
        # ===== 原有训练逻辑结束 =====

        # 记录指标
        monitor.end_batch()
        monitor.log_loss(epoch, batch_idx, loss.item())

        _, predicted = outputs.max(1)
        correct += predicted.eq(targets).sum().item()
        total += targets.size(0)
        accuracy = correct / total
        monitor.log_accuracy(epoch, batch_idx, accuracy)

        total_loss += loss.item()

    return total_loss / len(dataloader), correct / total


def run_experiment():
    """运行对比实验"""

    # ============================================================
    # 使用原有代码创建数据集和 DataLoader（不做修改）
    # ============================================================
    dataset = BirdCLEFDataset(df_train, CONFIG)
    dataloader = DataLoader(
        dataset,
        batch_size=CONFIG['train_batch_size'],
        shuffle=True,
        num_workers=CONFIG.get('num_workers', 0)
    )

    criterion = torch.nn.CrossEntropyLoss()
    monitor = ExperimentMonitor("BirdCLEF_2023", save_dir="./results")

    # ============================================================
    # 阶段 1: 基线训练（使用原有代码）
    # ============================================================
    print("=" * 60)
    print("阶段 1: 基线训练")
    print("=" * 60)

    model = BirdCLEFModel(CONFIG).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=CONFIG['learning_rate'])

    monitor.start_mode("baseline", config=CONFIG)
    for epoch in range(CONFIG['epochs']):
        loss, acc = train_epoch_with_monitor(
            model, dataloader, optimizer, criterion, epoch, monitor
        )
        print(f"Epoch {epoch+1}: Loss={loss:.4f}, Acc={acc:.4f}")
    monitor.stop_mode()

    # ============================================================
    # 阶段 2: CodeDAG 追踪与优化（只针对数据管道）
    # ============================================================
    print("\n" + "=" * 60)
    print("阶段 2: CodeDAG 数据管道优化")
    print("=" * 60)

    # 追踪 DataLoader 的迭代过程
    tracer = EnhancedTracer(max_depth=10, track_memory=True)
    iterator = iter(dataloader)

    with tracer.tracing_context():
        _ = next(iterator)  # 追踪获取一个 batch 的完整流程

    dag = tracer.dag_builder.dag
    print(f"DAG 构建完成: {len(dag.nodes)} 节点, {len(dag.edges)} 边")

    # 图优化
    opt_mgr = OptimizerManager(k=2)
    opt_result = opt_mgr.optimize(dag)

    # 生成迁移计划
    migration_plan = opt_mgr.get_migration_plan(
        opt_result['optimized_partitions'],
        opt_result['coarsened_dag'],
        gpu_count=1
    )
    print(f"迁移计划: {len(migration_plan.get('context_device_map', {}))} 个上下文映射")

    # ============================================================
    # 阶段 3: 优化后训练（训练代码不变，只应用数据管道优化）
    # ============================================================
    print("\n" + "=" * 60)
    print("阶段 3: 优化后训练")
    print("=" * 60)

    # 重新初始化模型（保证公平对比）
    model = BirdCLEFModel(CONFIG).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=CONFIG['learning_rate'])

    # 创建迁移器
    migrator = PipelineMigrator.from_plan(migration_plan)

    monitor.start_mode("optimization", config=CONFIG)
    try:
        # 应用数据管道优化（透明地修改底层函数）
        migrator.apply()

        # 训练代码与基线完全相同
        for epoch in range(CONFIG['epochs']):
            loss, acc = train_epoch_with_monitor(
                model, dataloader, optimizer, criterion, epoch, monitor
            )
            print(f"Epoch {epoch+1}: Loss={loss:.4f}, Acc={acc:.4f}")
    finally:
        # 必须恢复原始函数
        migrator.restore()
    monitor.stop_mode()

    # ============================================================
    # 阶段 4: 保存结果和对比
    # ============================================================
    print("\n" + "=" * 60)
    print("保存实验结果")
    print("=" * 60)

    monitor.save_json()
    monitor.plot_metrics()


if __name__ == "__main__":
    run_experiment()
