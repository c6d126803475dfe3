"""PPO on CartPole: a rollout, then minibatches."""

from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy

model = PPO("MlpPolicy", "CartPole-v1", n_steps=256, seed=0, device="cpu", verbose=0)
model.learn(1024)
print(evaluate_policy(model, model.get_env(), n_eval_episodes=3))
