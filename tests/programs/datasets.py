"""Data sets as people write them, and some that make trouble: each prints what it gives and how the generators are left."""

HEAD = """
import glob, hashlib, json, math, os, random, sys, time, collections, functools
import cv2
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, ConcatDataset, random_split, WeightedRandomSampler
random.seed(0); np.random.seed(0); torch.manual_seed(0)
D=sys.argv[1]
paths=sorted(glob.glob(os.path.join(D,'*.jpg')))[:96]
assert len(paths)==96
def h(x):
    if torch.is_tensor(x): return hashlib.sha256(x.contiguous().numpy().tobytes()).hexdigest()[:10]+str(tuple(x.shape))+str(x.dtype)
    if isinstance(x,np.ndarray): return hashlib.sha256(x.tobytes()).hexdigest()[:10]+str(x.shape)+str(x.dtype)
    if isinstance(x,dict): return {k:h(v) for k,v in x.items()}
    if isinstance(x,(list,tuple)): return [h(v) for v in x]
    return x
def rest(): print(random.random(), np.random.rand(), torch.rand(1).item())
"""

PROGRAMS = {
    "concat_frame_mapped": """
import pandas as pd, tempfile
T=os.path.join(tempfile.mkdtemp(),'a.npy')
np.save(T,np.stack([cv2.resize(cv2.imread(p),(80,80)) for p in paths]))
class Frame(Dataset):
    def __init__(self,df): self.df=df.reset_index(drop=True)
    def __len__(self): return len(self.df)
    def __getitem__(self,i):
        row=self.df.iloc[i]
        x=cv2.resize(cv2.imread(row['path']),(64,64))
        if np.random.rand()<.5: x=np.fliplr(x)
        return torch.from_numpy(x.copy()).float()/255., self.df.loc[i,'label']
class Mapped(Dataset):
    def __init__(self): self.a=np.load(T,mmap_mode='r')
    def __len__(self): return len(self.a)
    def __getitem__(self,i):
        x=np.array(self.a[i]); y=random.randint(0,15)
        return torch.from_numpy(x[y:y+64,y:y+64].copy()).float()/255., i
df=pd.DataFrame({'path':paths,'label':[i%4 for i in range(96)]})
for e in range(3):
    for b in DataLoader(ConcatDataset([Frame(df),Mapped()]),batch_size=8,shuffle=True): print(h(b))
    for b in DataLoader(ConcatDataset([Frame(df),Subset(Frame(df[::2]),range(20))]),batch_size=8): print(h(b))
rest()
""",
    "shape_change": """
class DS(Dataset):
    def __len__(self): return 96
    def __getitem__(self,i):
        im=cv2.imread(paths[i]); s=64 if self.epoch<1 else 80
        im=cv2.resize(im,(s,s)).astype(np.float32)/255.
        if self.epoch==2: im=im.astype(np.float64)
        im=(im-0.5)/0.25*random.uniform(.9,1.1)
        return im.transpose(2,0,1).copy(), i
ds=DS()
for e in range(4):
    ds.epoch=e
    for b in DataLoader(ds,batch_size=8,shuffle=True): print(h(b))
rest()
""",
    "corrupt": """
class DS(Dataset):
    def __len__(self): return 96
    def __getitem__(self,i):
        p=paths[i]
        im=cv2.imread(p if i%31!=7 else '/nonexistent.jpg')
        im=cv2.cvtColor(im,cv2.COLOR_BGR2RGB)
        im=cv2.resize(im,(64,64))
        if random.random()<.5: im=im[:,::-1]
        return torch.from_numpy(np.ascontiguousarray(im)), i
for e in range(3):
    it=iter(DataLoader(DS(),batch_size=8,shuffle=True))
    while True:
        try: print(h(next(it)))
        except StopIteration: break
        except cv2.error as er: print('err', str(er)[:60].replace(chr(10),' '))
    rest()
""",
    "mutates": """
class DS(Dataset):
    def __init__(self): self.seen=collections.Counter(); self.log=[]; self.cache={}
    def __len__(self): return 96
    def __getitem__(self,i):
        if i not in self.cache:
            self.cache[i]=cv2.resize(cv2.imread(paths[i]),(64,64))
        im=self.cache[i]
        self.seen[i]+=1
        self.log.append(i)
        im+=1
        return im.copy(), len(self.log)
ds=DS()
for e in range(3):
    for b in DataLoader(ds,batch_size=8,shuffle=True): print(h(b))
print(ds.seen.most_common(3), ds.log[:20]); rest()
""",
    "one_item": """
class DS(Dataset):
    def __len__(self): return 1
    def __getitem__(self,i): return cv2.imread(paths[0])[:64,:64].astype(np.float32)*random.random()
for e in range(30):
    for b in DataLoader(DS(),batch_size=8): print(h(b))
rest()
""",
    "nondeterministic": """
state={'n':0}
def noise(im):
    state['n']+=1
    return im+ (state['n']%3)
class DS(Dataset):
    def __len__(self): return 96
    def __getitem__(self,i):
        im=cv2.resize(cv2.imread(paths[i]),(64,64))
        return noise(im), state['n']
for e in range(3):
    for b in DataLoader(DS(),batch_size=8,shuffle=True): print(h(b))
rest()
""",
    "iterable": """
class DS(IterableDataset):
    def __iter__(self):
        order=list(range(96)); random.shuffle(order)
        for i in order:
            im=cv2.resize(cv2.imread(paths[i]),(64,64))
            if random.random()<.3: im=cv2.flip(im,1)
            yield torch.from_numpy(im.astype(np.float32)/255.-.5), i
for e in range(3):
    for b in DataLoader(DS(),batch_size=8): print(h(b))
rest()
""",
    "collate_sampler": """
class DS(Dataset):
    def __len__(self): return 96
    def __getitem__(self,i):
        im=cv2.imread(paths[i]); y=random.randint(0,10)
        im=cv2.resize(im[y:],(48+8*(i%3),48))
        return {'image':(im.astype(np.float32)/127.5-1).transpose(2,0,1),'id':i,'name':os.path.basename(paths[i]),'boxes':[[random.random() for _ in range(4)] for _ in range(i%3)]}
def collate(items):
    w=max(x['image'].shape[2] for x in items)
    out=np.zeros((len(items),3,48,w),np.float32)
    for k,x in enumerate(items): out[k,:,:,:x['image'].shape[2]]=x['image']
    return torch.from_numpy(out),[x['id'] for x in items],[x['boxes'] for x in items]
for e in range(3):
    s=WeightedRandomSampler(torch.rand(96),96)
    for b in DataLoader(DS(),batch_size=8,sampler=s,collate_fn=collate): print(h(b))
rest()
""",
    "transforms_classes": """
class Compose:
    def __init__(self,ts): self.ts=ts
    def __call__(self,x):
        for t in self.ts: x=t(x)
        return x
class Flip:
    def __init__(self,p=.5): self.p=p
    def __call__(self,x): return x[:,::-1] if np.random.rand()<self.p else x
class Crop:
    def __init__(self,s): self.s=s
    def __call__(self,x):
        a=np.random.randint(0,x.shape[0]-self.s); b=np.random.randint(0,x.shape[1]-self.s)
        return x[a:a+self.s,b:b+self.s]
class Norm:
    mean=np.array([.4,.5,.6],np.float32)
    def __call__(self,x): return (x.astype(np.float32)/255.-self.mean)/.25
class ToTensor:
    def __call__(self,x): return torch.from_numpy(x.transpose(2,0,1).copy())
T=Compose([Flip(),Crop(64),Norm(),ToTensor()])
class DS(Dataset):
    def __len__(self): return 96
    def __getitem__(self,i):
        im=cv2.imread(paths[i])
        return T(im), torch.tensor(i%2)
a,b=random_split(DS(),[64,32])
for e in range(4):
    for x in DataLoader(a,batch_size=8,shuffle=True): print(h(x))
    with torch.no_grad():
        for x in DataLoader(b,batch_size=8): print(h(x))
rest()
""",
    "mixup": """
class DS(Dataset):
    def __init__(self): self.rng=np.random.default_rng(7)
    def __len__(self): return 96
    def load(self,i): return cv2.resize(cv2.imread(paths[i]),(64,64)).astype(np.float32)
    def __getitem__(self,i):
        im=self.load(i)
        if self.rng.random()<.4:
            j=int(self.rng.integers(0,96)); lam=self.rng.beta(.4,.4)
            im=lam*im+(1-lam)*self.load(j)
        im/=255.
        im-=np.array([.4,.4,.4],np.float32)
        return torch.tensor(im).permute(2,0,1), i
for e in range(3):
    for b in DataLoader(DS(),batch_size=8,shuffle=True): print(h(b))
rest()
""",
    "generator_loop": """
def gen():
    for e in range(4):
        order=np.random.permutation(96)
        for k in range(0,96,8):
            batch=[]
            for i in order[k:k+8]:
                im=cv2.imread(paths[i]); im=cv2.cvtColor(im,cv2.COLOR_BGR2GRAY); im=cv2.resize(im,(64,64))
                im=im.astype('float32')/255
                if random.random()<.5: im=np.fliplr(im)
                batch.append(im)
            yield np.stack(batch)
for b in gen(): print(h(b))
rest()
""",
    "file_rewritten": """
import shutil, tempfile
T=tempfile.mkdtemp()
mine=[shutil.copy(p,os.path.join(T,os.path.basename(p))) for p in paths[:32]]
class DS(Dataset):
    def __len__(self): return 32
    def __getitem__(self,i):
        im=cv2.imread(mine[i]); im=cv2.resize(im,(64,64)); return im, random.random()
for e in range(6):
    for b in DataLoader(DS(),batch_size=8,shuffle=True):
        print(h(b))
        im=np.full((80,80,3),e*10,np.uint8); cv2.imwrite(mine[e],im)
shutil.rmtree(T); rest()
""",
    "train_state": """
class DS(Dataset):
    def __init__(self): self.scale=1.0
    def __len__(self): return 96
    def __getitem__(self,i):
        im=cv2.resize(cv2.imread(paths[i]),(64,64)).astype(np.float32)
        return torch.from_numpy(im.transpose(2,0,1)*np.float32(self.scale)), float(i)
ds=DS(); net=nn.Sequential(nn.Conv2d(3,4,3,2),nn.ReLU(),nn.Dropout(.3),nn.AdaptiveAvgPool2d(1),nn.Flatten(),nn.Linear(4,1))
opt=torch.optim.Adam(net.parameters())
for e in range(4):
    for k,(x,y) in enumerate(DataLoader(ds,batch_size=8,shuffle=True)):
        ds.scale=1/(1+k)
        l=((net(x/255)-y[:,None].float())**2).mean(); opt.zero_grad(); l.backward(); opt.step(); print(h(x), l.item())
rest()
""",
    "workers2": """
class DS(Dataset):
    def __len__(self): return 96
    def __getitem__(self,i):
        im=cv2.imread(paths[i]); im=cv2.resize(im,(64,64))
        if random.random()<.5: im=cv2.flip(im,1)
        im=im.astype(np.float32)*np.random.uniform(.8,1.2)
        return torch.from_numpy(((im/255.-.5)/.25).transpose(2,0,1)).float()+torch.rand(1), i
def init(w): random.seed(w); np.random.seed(w)
if __name__=='__main__':
    for e in range(3):
        for b in DataLoader(DS(),batch_size=8,shuffle=True,num_workers=2,worker_init_fn=init): print(h(b))
    rest()
""",
    "property_dataset": """
class Sample:
    def __init__(self,p): self.p=p
    @property
    def image(self): return cv2.imread(self.p)
    @functools.cached_property
    def name(self): return os.path.basename(self.p)
    def __len__(self): return 3
class DS(Dataset):
    def __init__(self): self.samples=[Sample(p) for p in paths]
    def __len__(self): return len(self.samples)
    def __getitem__(self,i):
        s=self.samples[i]
        im=cv2.resize(s.image,(64,64))
        return im, s.name, len(s), random.gauss(0,1)
for e in range(3):
    for b in DataLoader(DS(),batch_size=8,shuffle=True): print(h(b))
rest()
""",
}
